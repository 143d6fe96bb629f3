"""Span trees in the terminal."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcguard.telemetry.otel import OtelObserver
from fcguard.telemetry.otlp_json import request_line
from fcguard.telemetry.terminal import print_spans
from fcguard.telemetry.tree import SpanRow, TraceFileError, forest, read_spans, render_tree
from tests.telemetry.telemetry_driver import Driver, Recorded


def row(span_id: str, parent_id: str = "", *, start: int = 0, name: str = "", **fields: Any) -> SpanRow:
    return SpanRow(
        trace_id=fields.pop("trace_id", "t"),
        span_id=span_id,
        parent_id=parent_id,
        name=name or span_id,
        start=start,
        end=fields.pop("end", start + 1_500_000),
        status=fields.pop("status", "UNSET"),
        attributes=fields.pop("attributes", {}),
        links=fields.pop("links", ()),
    )


def test_tree_of_the_worked_example(tmp_path: Path, recorded: Recorded) -> None:
    Driver(OtelObserver(tracer_provider=recorded.tracer_provider)).confirmed_write()
    path = tmp_path / "spans.jsonl"
    path.write_text("".join(request_line([span]) + "\n" for span in recorded.spans))
    told = [line.split("request=")[0] for line in render_tree(read_spans(path)).splitlines()]
    shapes = [" ".join(part for part in line.split() if not part[0].isdigit() and part != "ms") for line in told]
    assert shapes == [
        "execute_tool create_order outcome=completed basis=confirmed attempts=1",
        "├─ fcguard.attempt create_order ERROR TIMEOUT number=1 effect=unknown",
        "└─ fcguard.recover action=confirm outcome=applied",
        "└─ execute_tool query_order purpose=confirm outcome=completed basis=returned attempts=1",
        "└─ fcguard.attempt query_order number=1 effect=none",
    ]


def test_children_stand_in_the_order_they_started() -> None:
    spans = [row("b", "a", start=30), row("c", "a", start=20), row("d", "c", start=25), row("a", start=10)]
    assert render_tree(spans).splitlines() == ["a  1.5 ms", "├─ c  1.5 ms", "│  └─ d  1.5 ms", "└─ b  1.5 ms"]


@pytest.mark.parametrize(
    ("delay", "text"), [(0.21498296072936163, "0.215"), (2.0, "2"), (61.25, "61.2"), (1e-05, "1e-05")]
)
def test_pause_is_told_in_seconds(delay: float, text: str) -> None:
    line = render_tree([row("a", attributes={"fcguard.attempt.number": 2, "fcguard.attempt.delay": delay})])
    assert line == f"a  1.5 ms  number=2  delay={text} s"


def test_span_without_its_parent_is_a_root_and_links_are_told() -> None:
    spans = [row("a", "gone"), row("b", start=5, end=2_500_000_005, status="OK", links=(("0123456789", "s1"),))]
    assert render_tree(spans).splitlines() == ["a  1.5 ms", "b  OK  2.50 s  linked to 01234567/s1"]


def test_terminal_cannot_be_steered() -> None:
    evil = row("a", name="x\x1b[2Jy", attributes={"error.type": "E\nF", "fcguard.outcome": "\x07"})
    text = render_tree([evil])
    assert text.isprintable()
    assert "x\ufffd[2Jy  E\ufffdF" in text


ids = st.sampled_from("abcdef")


@given(st.lists(st.tuples(ids, st.sampled_from("abcdefgh") | st.just(""), st.integers(0, 9)), max_size=12))
def test_every_span_is_in_exactly_one_tree(parts: list[tuple[str, str, int]]) -> None:
    spans = [row(span_id, parent_id, start=start) for span_id, parent_id, start in parts]
    found = []
    stack = list(forest(spans))
    while stack:
        node = stack.pop()
        found.append(node.span.span_id)
        stack.extend(node.children)
    assert sorted(found) == sorted({span.span_id for span in spans})
    assert len(render_tree(spans).splitlines()) == len(found)


def test_very_deep_tree_is_no_problem() -> None:
    spans = [row(str(number), str(number - 1) if number else "", start=number) for number in range(3_000)]
    assert len(render_tree(spans).splitlines()) == 3_000


def test_nothing_gives_nothing(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text('\n{"resourceMetrics":[]}\n{}\n{"resourceSpans":null}\n')
    assert read_spans(path) == []
    assert render_tree([]) == ""


SPAN = {"traceId": "t", "spanId": "s", "name": "n"}


def request(span: Any) -> str:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})


def test_values_become_plain(tmp_path: Path) -> None:
    values = [
        {"key": "i", "value": {"intValue": "7"}},
        {"key": "a", "value": {"arrayValue": {"values": [{"stringValue": "x"}, {"boolValue": True}]}}},
        {"key": "m", "value": {"kvlistValue": {"values": [{"key": "k", "value": {"doubleValue": 0.5}}]}}},
        {"key": "n", "value": {}},
    ]
    path = tmp_path / "spans.jsonl"
    path.write_text(request(SPAN | {"attributes": values, "status": {"code": 1}, "links": [SPAN]}))
    (span,) = read_spans(path)
    assert span.attributes == {"i": 7, "a": ["x", True], "m": {"k": 0.5}, "n": None}
    assert (span.status, span.parent_id, span.links) == ("OK", "", (("t", "s"),))


@pytest.mark.parametrize(
    "line",
    [
        "no json",
        "[1]",
        '{"resourceSpans": [1]}',
        request({"name": "n"}),
        request(SPAN | {"startTimeUnixNano": "soon"}),
        request(SPAN | {"status": 3}),
        request(7),
        "[" * 100_000,
        "\xff",
    ],
)
def test_other_files_are_refused_with_the_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "spans.jsonl"
    path.write_bytes(f"{request(SPAN)}\n{line}\n{request(SPAN)}\n".encode("latin-1"))
    with pytest.raises(TraceFileError, match=r"spans\.jsonl', line 2: "):
        read_spans(path)


def test_last_line_that_is_cut_off_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    path.write_text(f"{request(SPAN)}\n{request(SPAN)[:-9]}")
    assert len(read_spans(path)) == 1


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_terminal_gets_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen = Terminal()
    print_spans(
        [row("a", status="ERROR", attributes={"error.type": "TIMEOUT"}), row("b", "a"), row("c", start=9)], screen
    )
    text = screen.getvalue()
    assert "\x1b[1;31ma\x1b[0m" in text
    assert "└── " in text
    assert "TIMEOUT" in text
    assert len(text.splitlines()) == 3


def test_plain_text_without_rich_or_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    page = io.StringIO()
    print_spans([row("a")], page)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    screen = Terminal()
    print_spans([row("a")], screen)
    assert page.getvalue() == screen.getvalue() == "a  1.5 ms\n"
