"""Reading traces: the format is found out in every layout, broken files are read as far as they go, nothing crashes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fcguard.errors import UsageError
from fcguard.evaluation.importers.read import FORMATS, read_records, read_trace
from fcguard.evaluation.importers.stream import iter_values
from fcguard.evaluation.trace import UnreadLog
from tests.evaluation.evaluation_samples import LEDGER, SAMPLES


@pytest.mark.parametrize("layout", ["lines", "array", "value", "indented"])
@pytest.mark.parametrize("name", list(FORMATS))
def test_the_format_is_found_out_in_every_layout(tmp_path: Path, name: str, layout: str) -> None:
    sample = SAMPLES[name]
    text = {
        "lines": "\n" + json.dumps(sample) + "\n\n" + json.dumps(sample) + "\n",
        "array": json.dumps([sample]),
        "value": json.dumps(sample),
        "indented": json.dumps([sample], indent=2),
    }[layout]
    path = tmp_path / "trace.json"
    path.write_text(text, "utf-8")
    run = read_trace(path)
    assert run.format == name
    assert len(list(run)) >= 1
    assert list(run) == list(run), "a run can be read again"
    assert FORMATS[name].recognises(sample)


@pytest.mark.parametrize("name", list(FORMATS))
@settings(deadline=None)
@given(
    values=st.lists(
        st.recursive(
            st.none() | st.integers() | st.text(max_size=3),
            lambda x: (
                st.lists(x, max_size=3)
                | st.dictionaries(
                    st.sampled_from(
                        [
                            "role",
                            "tool",
                            "name",
                            "calls",
                            "messages",
                            "tool_calls",
                            "traj",
                            "reward",
                            "content",
                            "resourceSpans",
                            "spans",
                            "request_id",
                            "state",
                            "simulations",
                            "tool_chain",
                            "function",
                            "arguments",
                            "attempts",
                            "evidence",
                            "trial",
                        ]
                    ),
                    x,
                    max_size=4,
                )
            ),
            max_leaves=8,
        ),
        max_size=3,
    )
)
def test_no_importer_crashes_or_stays_silent(name: str, values: list[Any]) -> None:
    run = read_records(values, name)
    sessions = list(run)
    assert sessions or run.unread.count or not values or name == "otlp_genai"


def test_a_broken_line_is_noted_and_skipped(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(LEDGER) + "\n{broken\n\n" + json.dumps({**LEDGER, "session_id": "x"}) + "\n", "utf-8")
    run = read_trace(path)
    assert len(list(run)) == 2
    assert [str(item) for item in run.unread.first][0].startswith("line 2: not JSON")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('[{"tool": "a"}, {"tool": ', "nothing after it was read"),
        ('[{"tool": "a"}', "not closed"),
        ('[{"tool": "a"}, ' + "[" * 100_000, "nested too deeply"),
        ('[{"tool": "a"}, 12', "ends inside"),
    ],
)
def test_a_cut_array_is_read_as_far_as_it_goes(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text, "utf-8")
    run = read_trace(path)
    (session,) = run
    assert len(session.calls) == 1
    assert fault in str(run.unread.first[0])


def test_a_large_array_is_streamed_in_pieces(tmp_path: Path) -> None:
    rows = [{"tool": "a", "args": {"text": "x" * size}} for size in (10, 200_000, 5, 300_000, 0)]
    path = tmp_path / "t.json"
    path.write_text(json.dumps(rows), "utf-8")
    unread = UnreadLog()
    assert [value for _, value in iter_values(path, unread)] == rows
    assert unread.count == 0


def test_a_first_line_longer_than_the_look_ahead_is_still_a_line(tmp_path: Path) -> None:
    long = {**LEDGER, "raw_arguments": json.dumps({"text": "x" * 1_200_000})}
    path = tmp_path / "t.json"
    path.write_text(json.dumps(long) + "\n" + json.dumps({**LEDGER, "session_id": "x"}) + "\n", "utf-8")
    assert [session.session_id for session in read_trace(path)] == ["s", "x"]


def test_only_the_first_notes_are_kept() -> None:
    log = UnreadLog(limit=2)
    for number in range(5):
        log.add(str(number), "x")
    assert (log.count, len(log.first)) == (5, 2)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    with pytest.raises(UsageError, match="cannot be read"):
        read_trace(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot be read"):
        read_trace(path)
    path.write_text('{"nothing": 1}', "utf-8")
    with pytest.raises(UsageError, match="name one of ledger, openai_messages"):
        read_trace(path)
    with pytest.raises(UsageError, match="unknown trace format 'csv'"):
        read_trace(path, "csv")
    with pytest.raises(UsageError, match="unknown trace format"):
        read_records([], "csv")
    path.write_text("{broken", "utf-8")
    run = read_trace(path, "ledger")
    assert list(run) == []
    assert run.unread.count == 1
