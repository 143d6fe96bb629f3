"""The commands that show a ledger, `list`, `show` and `trace`: what they print for people and programs."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from fcguard import Guard, SQLiteStore
from fcguard.model.states import CallState
from fcguard.stores.base import Event, Move
from fcguard.testing.store_contract import ask
from tests.cli.ledger_shell import Shell, make_guard

# -- list ----------------------------------------------------------------------------------------------------------------


def test_list_shows_calls_newest_first(shell: Shell, calls: dict[str, str]) -> None:
    result = shell("list")
    assert result.code == 0
    head, *rows = result.out.splitlines()
    assert head.split()[:2] == ["request", "id"]
    assert rows[0].startswith(calls["outside"])
    assert len(rows) == 5, "and the confirmation"


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (("--task", "T", "--tool", "create"), ["parked"]),
        (("--open",), ["parked"]),
        (("--state", "rejected"), ["refused"]),
        (("--state", "REJECTED", "--state", "PARKED"), ["parked", "refused"]),
        (("--limit", "1"), ["outside"]),
        (("--since", "1h", "--tool", "create"), ["parked"]),
        (("--until", "2020-01-01"), []),
        (("--since", "2020-01-01T12:00+02:00", "--tool", "create"), ["parked"]),
    ],
)
def test_list_narrows(shell: Shell, calls: dict[str, str], options: tuple[str, ...], names: list[str]) -> None:
    result = shell("list", "--json", *options)
    assert [row["request_id"] for row in result.lines] == [calls[name] for name in names]


@pytest.mark.parametrize("options", [("--state", "DONE"), ("--since", "yesterday"), ("--limit", "0")])
def test_list_refuses_what_it_does_not_know(shell: Shell, calls: dict[str, str], options: tuple[str, ...]) -> None:
    assert shell("list", *options).code == 2


# -- show ----------------------------------------------------------------------------------------------------------------


def test_show_tells_the_whole_story_of_a_write(shell: Shell, calls: dict[str, str]) -> None:
    text = shell("show", calls["parked"]).out
    for part in (
        "PARKED", "T, step 3", "test-a", "mall", "Ann", "look around", '"order_id": "A2"', '"password": "[redacted]"',
        "tool_allowed", "attempt 1", "TIMEOUT", "classified UNCERTAIN_RESULT", "confirmation", "NotApplied", "confirm_state", "caused",
        "look, confirm, SUCCEEDED",
    ):  # fmt: skip
        assert part in text, part
    assert "hunter22" not in text


def test_show_tells_the_folds_of_a_read(shell: Shell, calls: dict[str, str]) -> None:
    story = shell("show", calls["read"], "--json").json
    assert story["raw"] == '{"orderId": "A1", "limit": "5"}'
    assert story["arguments"] == {"order_id": "A1", "limit": 5}
    assert {fold["path"] for fold in story["folds"]} == {"orderId", "limit"} or len(story["folds"]) == 2
    assert (story["state"], story["basis"], story["result"]["data"]) == (
        "SUCCEEDED",
        "returned",
        {"order_id": "A1", "limit": 5},
    )
    assert len(story["attempts"]) == 1
    text = shell("show", calls["read"]).out
    assert "fold" in text
    assert "-> 5" in text


def test_show_tells_why_a_call_was_refused(shell: Shell, calls: dict[str, str]) -> None:
    story = shell("show", calls["refused"], "--json").json
    assert (story["state"], story["attempts"], story["result"]["error_type"]) == ("REJECTED", [], "PARAM_INVALID")
    assert "PARAM_INVALID" in shell("show", calls["refused"]).out


def test_show_names_the_paths_of_evidence(shell: Shell, tmp_path: Path) -> None:
    with make_guard(tmp_path) as guard:
        from fcguard import current_call

        @guard.tool(effect="read")
        def shot() -> str:
            current_call().attach(b"png", "screen.png", media_type="image/png", type="image")
            return "done"

        request_id = guard.call("shot").request_id
    (tmp_path / "shop.py").write_text("from tests.cli.ledger_shell import make_guard\nfrom pathlib import Path\n")
    (item,) = shell("show", request_id, "--json").json["evidence"]
    assert item["path"].endswith(item["ref"])
    assert "screen.png" in shell("show", request_id).out


def test_show_of_an_unknown_call_says_so(shell: Shell, calls: dict[str, str]) -> None:
    result = shell("show", "fc-nope")
    assert (result.code, result.err) == (
        2,
        "fcguard: the ledger holds no call 'fc-nope'; `fcguard list` shows those it holds\n",
    )


def test_nothing_that_is_shown_can_steer_the_terminal(shell: Shell, tmp_path: Path) -> None:
    with make_guard(tmp_path) as guard:
        request_id = guard.call("look", {"order_id": "\x1b[2J evil"}).request_id
        guard.call("\x1b]0;evil\x07", {})
    for result in (shell("show", request_id), shell("list")):
        assert "\x1b" not in result.out
        assert "\x07" not in result.out


def test_show_tells_takeovers_late_results_and_resolutions(shell: Shell, calls: dict[str, str], tmp_path: Path) -> None:
    from fcguard.stores.base import Note

    store = SQLiteStore(tmp_path / "ledger.db")
    request_id = calls["parked"]
    late = {"request_id": request_id, "attempt": 1}
    ask(store, Note(request_id, Event("late", 2.0, {**late, "returned": True, "value": {"a": 1}})))
    ask(store, Note(request_id, Event("late", 3.0, {**late, "returned": False, "error": "OSError"})))
    ask(store, Note(request_id, Event("late", 4.0, {**late, "returned": True})))
    row = store.get(request_id)
    assert row is not None
    taken = {"by": "me", "from": "you", "liveness": "dead", "sent_until": 1.0}
    ask(store, Move(request_id, row.version, CallState.PARKED, 1, Event("claimed", 5.0, taken), next_at=6.0))
    store.close()
    assert shell("resolve", request_id, "--applied", "--by", "Ann", "--reason", "saw it").code == 0
    text = shell("show", request_id).out
    for part in (
        'returned {"a": 1}',
        "raised OSError",
        "by me from you (dead)",
        "applied, by Ann: saw it",
        "SUCCEEDED, operator",
    ):
        assert part in text, part


def test_a_written_trace_of_events_is_told_where_it_is_open(shell: Shell, tmp_path: Path) -> None:
    from fcguard.stores.base import Identity, Open

    store = SQLiteStore(tmp_path / "ledger.db")
    identity = Identity("fc-open", "-", "create", "1", "write", "fallback", parent_id="fc-parent")
    opened = Event(
        "opened", 1.0, {"arguments": {"text": "x" * 3000}, "approval": "decision 7 by Ann", "blocked_by": "fc-1"}
    )
    ask(store, Open(identity, CallState.STARTED, 1, opened))
    attempt = {"request_id": "fc-open", "number": 2, "delay_s": 0.5}
    ask(
        store,
        Move(
            "fc-open",
            1,
            CallState.UNCERTAIN,
            1,
            Event("uncertain", 1.5, {"number": 1, "duration_ms": 5.0, "abandoned": True}),
        ),
    )
    ask(store, Move("fc-open", 2, CallState.STARTED, 2, Event("attempt", 2.0, attempt), next_at=1e9))
    store.close()
    text = shell("show", "fc-open").out
    for part in (
        "fallback for fc-parent",
        "none",
        "decision 7",
        "abandoned",
        "after a pause of 0.5 s",
        "open: no outcome",
        "due",
        "3012 characters",
    ):
        assert part in text, part


def test_a_terminal_gets_a_drawn_table(shell: Shell, calls: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    with redirect_stdout(Terminal()) as terminal:
        shell("list")
    assert "\x1b[1m" in terminal.getvalue()
    assert calls["read"] in terminal.getvalue()


# -- trace -------------------------------------------------------------------------------------------------------------------


def test_trace_prints_a_tree(shell: Shell, tmp_path: Path) -> None:
    from fcguard.telemetry import setup

    spans = tmp_path / "spans.jsonl"
    telemetry = setup(jsonl_path=spans)
    guard = Guard(
        store=SQLiteStore(tmp_path / "ledger.db"), evidence_dir=tmp_path, tracer_provider=telemetry.tracer_provider
    )

    @guard.tool(effect="read")
    def look() -> int:
        return 1

    request_id = look().request_id
    guard.close()
    telemetry.shutdown()
    result = shell("trace", str(spans), store=False)
    assert (result.code, "execute_tool look" in result.out) == (0, True)
    assert "trace" in shell("show", request_id).out


def test_a_trace_that_cannot_be_read(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("{}\nnonsense\n{}\n")
    assert shell("trace", str(tmp_path / "bad.jsonl"), store=False).code == 3
    assert shell("trace", str(tmp_path / "missing.jsonl"), store=False).code == 3


@pytest.mark.parametrize("content", ["", '{"resourceMetrics": []}\n'])
def test_a_trace_without_spans_says_so(shell: Shell, tmp_path: Path, content: str) -> None:
    (tmp_path / "empty.jsonl").write_text(content)
    result = shell("trace", str(tmp_path / "empty.jsonl"), store=False)
    assert (result.code, result.out) == (3, "")
    assert "holds no spans" in result.err
