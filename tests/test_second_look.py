"""What a second, hostile look found: interrupts while waiting, unreadable text with secrets, odd names, idle threads."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from fcguard import Applied, Guard, Intent, MemoryStore, NotApplied, SQLiteStore, Tool
from fcguard.model.states import CallState
from fcguard.testing.clock import FakeClock
from tests.conftest import ANY_OBJECT, Effect, Script

LOGIN = {
    "type": "object",
    "properties": {"user": {"type": "string"}, "p": {"type": "string", "writeOnly": True}},
    "additionalProperties": False,
}


class Interrupting(FakeClock):
    """Its first long sleep is interrupted, as by Ctrl-C."""

    def sleep(self, seconds: float) -> None:
        if seconds > 1 and not self.slept:
            self.slept.append(seconds)
            raise KeyboardInterrupt
        super().sleep(seconds)


def test_an_interrupt_while_waiting_leaves_what_a_crash_would_leave() -> None:
    clock, script = Interrupting(), Script(TimeoutError(), Effect("done"))
    guard = Guard(store=MemoryStore(), clock=clock)
    answers: list[Any] = [NotApplied(), Applied("found")]
    guard.register(
        Tool(name="write", parameters=ANY_OBJECT, fn=script.sync, confirm=lambda call: answers.pop(0), settle=30.0)
    )
    with guard.task("t"), pytest.raises(KeyboardInterrupt):
        guard.call("write", {})
    stored = next(iter(guard.store.calls()))
    assert (stored.state, len(script.calls)) == (CallState.UNCERTAIN, 1)


@pytest.mark.parametrize(
    "text",
    [
        '{"user": "u", "p": "canary-Zq630',
        '{"user":"u" "p":"canary-Zq630"}',
        "p: canary-Zq630",
        "{\u201cp\u201d:\u201ccanary-Zq630\u201d}",
    ],
)
def test_text_that_cannot_be_read_is_not_kept_where_a_tool_takes_secrets(tmp_path: Path, text: str) -> None:
    guard = Guard(store=SQLiteStore(tmp_path / "ledger.db"))
    guard.register(Tool(name="login", parameters=LOGIN, fn=lambda **_: None, effect="read"))
    result = guard.run(Intent("login", text))
    guard.close()
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert result.error_type in ("PARAM_MALFORMED", "PARAM_TRUNCATED")
    assert "canary" not in result.model_dump_json()
    assert b"canary" not in kept
    assert b"could not be read; not kept" in kept


def test_text_that_cannot_be_read_is_kept_where_nothing_is_secret(guard: Guard) -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}, "additionalProperties": False}
    guard.register(Tool(name="find", parameters=schema, fn=lambda **_: None, effect="read"))
    result = guard.run(Intent("find", '{"q": oops}'))
    events = [event.payload for event in guard.store.events(request_id=result.request_id)]
    assert any(b"oops" in payload for payload in events)


@pytest.mark.parametrize(
    "name", [10**5000, [[[]]], object(), b"query", 3.5], ids=["int", "list", "object", "bytes", "float"]
)
def test_a_name_that_is_no_text_is_refused_with_an_envelope(guard: Guard, name: Any) -> None:
    result = guard.call(name, {})
    assert (result.error_type, result.attempts) == ("TOOL_UNKNOWN", 0)
    assert len(result.tool_name) < 50


def test_closing_a_guard_ends_its_idle_threads() -> None:
    ended: list[threading.Thread] = []
    guard = Guard(store=MemoryStore())
    guard.tool(lambda: ended.append(threading.current_thread()), name="read", effect="read", timeout=60.0)
    assert guard.call("read").success
    guard.close()
    ended[0].join(60)
    assert not ended[0].is_alive()
