"""The report: one document, five renderings, the same bytes for the same input, and nothing that a trace could inject."""

from __future__ import annotations

import io
import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from rich.console import Console

from fcguard.errors import UsageError
from fcguard.evaluation.aggregate import Partial
from fcguard.evaluation.baseline import make_baseline
from fcguard.evaluation.catalogue import Catalogue, ToolSpec
from fcguard.evaluation.evaluate import evaluate
from fcguard.evaluation.gate import Verdict, judge
from fcguard.evaluation.gold import parse_gold
from fcguard.evaluation.metrics import Measures
from fcguard.evaluation.report.charts import build_charts
from fcguard.evaluation.report.document import ReportOptions, build_document
from fcguard.evaluation.report.html import render_html
from fcguard.evaluation.report.json_report import render_json, report_schema
from fcguard.evaluation.report.junit import render_junit
from fcguard.evaluation.report.markdown import render_markdown
from fcguard.evaluation.report.terminal import print_report
from fcguard.evaluation.report.write import RENDERINGS, write_report
from fcguard.evaluation.suites.naive import evaluate_naive
from fcguard.evaluation.trace import Attempt, RunIdentity, Session, UnreadLog
from tests.evaluation.evaluation_builders import call, session, step

EVIL = "</script><img src=x onerror=alert(1)>|`\x01"

TOOLS = Catalogue.of(
    [
        ToolSpec("look", schema={"type": "object", "properties": {"n": {"type": "integer"}}}, effect="read"),
        ToolSpec("send", "mail", schema={"type": "object"}, effect="write"),
        ToolSpec("drop", schema={"type": "object"}, effect="destructive"),
    ]
)
GOLD = parse_gold(
    {
        "version": 1,
        "suite": "orders",
        "suitability": {"look": {"best_for": ["reading"]}},
        "tasks": [
            {
                "id": "1",
                "slice": "x",
                "steps": [step("look"), {"any_of": [{"tool": "send", "arguments": {"to": "ann"}}]}],
            },
            {
                "id": "2",
                "slice": "y",
                "steps": [{"kind": "reading"}, step("other", "look", optional=True)],
                "min_calls": 1,
            },
            {"id": "3", "steps": [step("none")]},
        ],
    }
)
MEASURES = Measures(GOLD, TOOLS)


def runs() -> list[Session]:
    look = call(
        "look", {"n": 1}, result_hash="r", evidence=("logs/look.log", "javascript:alert(1)", "https://example.com/x")
    )
    bad = call("look", {"n": "x"}, attempts=(Attempt("failed"), Attempt("succeeded")))
    broken = call("look", None, parse_error="not JSON: " + EVIL)
    found = []
    for trial in range(3):
        found += [
            session(look, call("send", {"to": EVIL}, server="mail"), task_id="1", trial=trial, detail=EVIL),
            session(look, look, bad, task_id="2", trial=trial),
            session(task_id="3", trial=trial),
        ]
    found.append(
        session(call("drop", {}, status="refused"), broken, call(EVIL, {}), task_id="1", trial=3, session_id=EVIL)
    )
    found.append(session(call("drop", {}, status="uncertain", confirmed_by_human=True), task_id="3", trial=3))
    found.append(session(call("look", {"n": 2}), task_id="unknown", trial=0))
    return found


def document(**fields: Any) -> dict[str, Any]:
    partial = evaluate(runs(), MEASURES)
    unread = UnreadLog()
    unread.add("line 1", EVIL)
    return build_document(
        partial,
        judge(partial),
        source="t.jsonl",
        suite="orders",
        unread=unread,
        naive=evaluate_naive(MEASURES),
        **fields,
    )


def test_the_document_is_what_its_published_schema_says() -> None:
    schema = report_schema()
    Draft202012Validator.check_schema(schema)
    assert list(Draft202012Validator(schema).iter_errors(document())) == []
    empty = build_document(Partial(), Verdict.usage("nothing to judge"))
    assert list(Draft202012Validator(schema).iter_errors(empty)) == []


def test_a_comparison_is_in_the_document() -> None:
    good = [session(call("look", {"n": trial}), task_id="2", trial=trial) for trial in range(3)]
    gold = parse_gold({"version": 1, "tasks": [{"id": "2", "steps": [step("look")]}]})
    partial = evaluate(good, Measures(gold, TOOLS))
    identity = RunIdentity("1", "m", gold.prompt_set_hash, TOOLS.schema_hash)
    base = make_baseline(partial, identity, gold, passed_gate=True)
    built = build_document(partial, judge(partial, baseline=base), identity=identity)
    assert built["comparisons"][0]["tasks"] == 1
    assert list(Draft202012Validator(report_schema()).iter_errors(built)) == []
    assert "Against the baseline" in render_html(built)
    assert "Against the baseline" in render_markdown(built)


@pytest.mark.parametrize("ending", list(RENDERINGS))
def test_the_same_input_gives_the_same_bytes(tmp_path: Path, ending: str) -> None:
    for name in ("one", "two"):
        write_report(document(), tmp_path / f"{name}{ending}")
    assert (tmp_path / f"one{ending}").read_bytes() == (tmp_path / f"two{ending}").read_bytes()


def test_shards_in_another_order_give_the_same_bytes() -> None:
    from fcguard.evaluation.aggregate import merge

    parts = [evaluate([run], MEASURES) for run in runs()]
    forward, backward = Partial(), Partial()
    for part in parts:
        forward = merge(forward, part)
    for part in reversed(parts):
        backward = merge(backward, part)
    first, second = (render_json(build_document(whole, judge(whole))) for whole in (forward, backward))
    assert first == second


def test_json_holds_no_nan_and_ends_with_a_newline() -> None:
    text = render_json(document())
    assert text.endswith("}\n")
    assert json.loads(text, parse_constant=pytest.fail)["schema_version"] == 1


@pytest.mark.parametrize("ending", list(RENDERINGS))
def test_text_that_cannot_be_encoded_does_not_stop_a_report(tmp_path: Path, ending: str) -> None:
    broken = session(call("look", {"n": "\ud800"}), call("\udfff", {}), task_id="\ud800", detail="\ud800")
    partial = evaluate([broken], MEASURES)
    write_report(build_document(partial, judge(partial), source="\ud800"), tmp_path / f"r{ending}")
    assert (tmp_path / f"r{ending}").stat().st_size > 500


@pytest.mark.parametrize("ending", list(RENDERINGS))
def test_a_verdict_without_checks_can_be_rendered(tmp_path: Path, ending: str) -> None:
    write_report(build_document(Partial(), Verdict.usage("the prompts differ")), tmp_path / f"r{ending}")
    assert "the prompts differ" in (tmp_path / f"r{ending}").read_text("utf-8")


def test_files_of_other_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"use one of \.html"):
        write_report(document(), tmp_path / "report.pdf")
    with pytest.raises(UsageError, match="cannot be written"):
        write_report(document(), tmp_path / "missing" / "report.json")


def test_junit_counts_checks_and_tasks() -> None:
    root = ET.fromstring(render_junit(document()))
    gate, tasks = root
    assert (gate.get("name"), gate.get("tests"), tasks.get("tests")) == ("gate", "6", "4")
    assert gate.get("failures") == "2"
    failed = [case.get("name") for case in tasks if case.find("failure") is not None]
    assert "x.1" in failed
    fixes = [failure.text for failure in gate.iter("failure")]
    assert any("first fix" in (text or "") for text in fixes)
    usage = ET.fromstring(render_junit(build_document(Partial(), Verdict.usage("prompts differ"))))
    assert [error.get("message") for error in usage.iter("error")] == ["prompts differ"]


def test_markdown_tables_hold_together() -> None:
    text = render_markdown(document())
    assert "**Gate: fail** (exit 1)" in text
    assert "could not be read" in text
    assert "<img" not in text
    for block in text.split("\n\n"):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines() if line.startswith("|")}
        assert len(widths) <= 1
    assert "no dimension" not in render_markdown(build_document(Partial(), Verdict.usage("x")))


def test_the_terminal_shows_verdict_fix_and_cases() -> None:
    stream = io.StringIO()
    print_report(document(), Console(file=stream, width=200, no_color=True))
    text = stream.getvalue()
    assert "gate: fail (exit 1)" in text
    assert "P0 High-risk misfire: Take the tool off" in text
    assert "not read: 1 things" in text
    assert "Worst cases" in text
    stream = io.StringIO()
    print_report(build_document(Partial(), Verdict.usage("x")), Console(file=stream, width=200))
    assert "gate: usage (exit 2): x" in stream.getvalue()


class _Page(HTMLParser):
    """Collects what a page would load or run."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.links: list[str] = []
        self.handlers: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "srcset", "data") or (tag == "link" and name == "href"):
                self.loads.append(value or "")
            if tag == "a" and name == "href":
                self.links.append(value or "")
            if name.startswith("on"):
                self.handlers.append(name)
            if name == "id":
                self.ids.append(value or "")


def page_of(text: str) -> _Page:
    page = _Page()
    page.feed(text)
    return page


def test_the_page_loads_nothing_and_a_trace_cannot_inject_anything() -> None:
    text = render_html(document())
    page = page_of(text)
    assert page.loads == ["data:,"]
    assert "img" not in page.tags
    assert page.handlers == []
    assert "default-src 'none'" in text
    assert page.tags.count("script") == 3
    assert "logs/look.log" in page.links
    assert "https://example.com/x" in page.links
    assert not [link for link in page.links if link.startswith("javascript")]
    assert EVIL not in text


def test_the_page_can_be_used_by_keyboard_and_its_links_lead_somewhere() -> None:
    text = render_html(document())
    page = page_of(text)
    inside = [link[1:] for link in page.links if link.startswith("#")]
    assert inside
    assert set(inside) <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert page.tags.count("details") > 3
    assert text.count('class="scroll" tabindex="0"') == text.count('class="scroll"')


def test_charts_have_their_numbers_in_words() -> None:
    charts = build_charts(document())
    assert [chart["id"] for chart in charts] == ["chart-rates", "chart-score", "chart-trials", "chart-tools"]
    assert all(chart["summary"] and chart["figure"]["data"] for chart in charts)
    assert build_charts(build_document(Partial(), Verdict.usage("x"))) == []
    assert "<" not in json.dumps(charts[-1]["figure"]["data"]).replace("<extra></extra>", "")


def test_without_charts_the_page_needs_no_script() -> None:
    text = render_html(document(), charts=False)
    assert "script" not in page_of(text).tags
    assert len(text) < 200_000


def test_argument_values_can_be_kept_out() -> None:
    options = ReportOptions(title="Nightly", cases=20, arguments=False)
    text = render_json(document(options=options))
    assert '"ann"' not in text
    cases = document(options=options)["cases"]
    shown = [row["call"]["arguments"] for case in cases for row in case["rows"] if "call" in row]
    assert set(shown) <= {"(not shown)", ""}
    problems = [
        problem for case in cases for row in case["rows"] if "call" in row for problem in row["call"]["problems"]
    ]
    assert {problem["message"] for problem in problems} == {"breaks the rule 'type'", "breaks the rule 'parse'"}


def test_long_values_and_long_sessions_are_cut_and_say_so() -> None:
    long = session(*(call("look", {"n": number, "text": "x" * 900}) for number in range(150)), task_id="2")
    partial = evaluate([long], MEASURES)
    (case,) = build_document(partial, judge(partial))["cases"]
    assert case["rows_left_out"] == 50
    assert "characters)" in case["rows"][0]["call"]["arguments"]
    assert "more rows are not shown" in render_html(build_document(partial, judge(partial)), charts=False)


def test_every_case_explains_itself() -> None:
    cases = {(case["task_id"], case["trial"]): case for case in document()["cases"]}
    notes = [note for case in cases.values() for row in case["rows"] if "call" in row for note in row["call"]["notes"]]
    assert any(note.startswith("P0") and "a person agreed" in note and "not proved" in note for note in notes)
    assert any(note.startswith("P3 repeats call 1") for note in notes)
    assert "wrong write, stopped" in notes
    first = cases["1", 0]
    assert [diff["path"] for row in first["rows"] for diff in row.get("differences", ())] == ["to"]
    assert cases["2", 0]["rows"][0]["tier_source"] == "suitability catalogue"
    assert cases["unknown", 0]["rows"][0]["kind"] == "not_aligned"
    assert next(iter(cases)) == ("3", 3)
