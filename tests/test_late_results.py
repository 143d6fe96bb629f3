"""What an abandoned function did after all: judged once, with its object at hand, and believed by later recoveries."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from fcguard import Applied, Classified, Guard, Inconclusive, MemoryStore, NotApplied, Retry, Tool
from fcguard.testing.clock import FakeClock
from tests.conftest import ANY_OBJECT
from tests.ledger_reading import LIMIT, eventually, payloads


@dataclass
class Receipt:
    """An object of a library: what it means can be told from the object only, not from its JSON form."""

    ok: bool


def refused() -> httpx.Response:
    return httpx.Response(422, json={"error": "closed"}, request=httpx.Request("POST", "http://shop.test/orders"))


def unavailable() -> httpx.Response:
    return httpx.Response(503, json={"error": "busy"}, request=httpx.Request("POST", "http://shop.test/orders"))


def abandoned(guard: Guard, outcome: Any, **options: Any) -> tuple[str, dict[str, Any]]:
    """Let a write be given up and end later; answer its id and its late event."""
    release = threading.Event()

    def tool(**_: Any) -> Any:
        release.wait(60)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    guard.register(Tool(name="tool", parameters=ANY_OBJECT, fn=tool, timeout=LIMIT, **options))
    with guard.task("order"):
        result = guard.call("tool", {})
    release.set()
    eventually(lambda: bool(payloads(guard, "late")))
    (late,) = payloads(guard, "late")
    return result.request_id, late


def raising(*_: Any) -> Any:
    raise AttributeError("no such field")


def taken(found: Any, call: Any) -> Any:
    return Classified("CONFLICT", "refused", "taken", "said so") if isinstance(found, Receipt) else None


JUDGED: list[tuple[str, Any, dict[str, Any], str]] = [
    ("a success", Receipt(True), {"failed_when": lambda receipt: not receipt.ok}, "applied"),
    ("a declared refusal", Receipt(False), {"failed_when": lambda receipt: not receipt.ok}, "not_applied"),
    ("a rule that fails", Receipt(True), {"failed_when": raising}, "unknown"),
    ("a classifier that fails", Receipt(True), {"classifiers": (raising,)}, "unknown"),
    ("a classifier that babbles", Receipt(True), {"classifiers": (lambda *_: "WHO_KNOWS",)}, "unknown"),
    (
        "a classifier that knows",
        Receipt(True),
        {"classifiers": (taken,)},
        "not_applied",
    ),
    ("an answer that the server is busy", unavailable(), {}, "unknown"),
    ("an error that tells nothing", ConnectionResetError(), {}, "unknown"),
    ("an error that proves it", NotApplied("sold out"), {}, "not_applied"),
    ("an error and a classifier that fails", NotApplied("sold out"), {"classifiers": (raising,)}, "unknown"),
]


@pytest.mark.parametrize(("outcome", "options", "effect"), [row[1:] for row in JUDGED], ids=[row[0] for row in JUDGED])
def test_a_late_outcome_is_judged_like_one_that_came_in_time(
    guard: Guard, outcome: Any, options: dict[str, Any], effect: str
) -> None:
    request_id, late = abandoned(guard, outcome, confirm=lambda call: Inconclusive("not yet"), **options)
    assert late["effect"] == effect
    assert ("error_type" in late) is (effect == "not_applied" or isinstance(outcome, (OSError, httpx.Response)))
    result = guard.advance(request_id)
    assert (result.success, result.effect) == ((True, "applied") if effect == "applied" else (False, "unknown"))
    if effect == "applied":
        assert (result.outcome_basis, result.data) == ("late", {"ok": True})


def test_a_late_refusal_over_http_is_no_success(guard: Guard) -> None:
    request_id, late = abandoned(guard, refused())
    assert (late["returned"], late["effect"]) == (True, "not_applied")
    assert guard.advance(request_id).success is False


def test_a_confirmation_in_time_hears_the_same_verdict(guard: Guard, clock: FakeClock) -> None:
    """A value that nobody can judge is no success in the call itself either: the confirmation decides."""
    release, asked = threading.Event(), []

    def tool(**_: Any) -> Receipt:
        release.wait(60)
        return Receipt(True)

    def confirm(call: Any) -> Any:
        asked.append(call)
        release.set()
        eventually(lambda: not call.attempts[0].late.is_running)
        return NotApplied() if len(asked) == 1 else Applied("looked up")

    options: dict[str, Any] = {"failed_when": raising, "confirm": confirm, "settle": 1.0}
    guard.register(Tool(name="tool", parameters=ANY_OBJECT, fn=tool, timeout=LIMIT, **options))
    with guard.task("order"):
        result = guard.call("tool", {})
    assert (result.outcome_basis, result.data, len(asked)) == ("confirmed", "looked up", 2)


def test_each_abandoned_attempt_is_recorded_when_it_ends(tmp_path: Path) -> None:
    release, calls = threading.Event(), []

    def pay(**_: Any) -> str:
        calls.append(1)
        number = len(calls)
        release.wait(60)
        return f"receipt {number}"

    with Guard(store=MemoryStore(), evidence_dir=tmp_path, clock=FakeClock()) as guard:
        options: dict[str, Any] = {"idempotency_key": True, "retry": Retry(attempts=3)}
        guard.register(Tool(name="pay", parameters=ANY_OBJECT, fn=pay, timeout=LIMIT, **options))
        with guard.task("pay"):
            assert guard.call("pay", {}).attempts == 3
        release.set()
        eventually(lambda: len(payloads(guard, "late")) == 3)
        late = {event["attempt"]: event["value"] for event in payloads(guard, "late")}
    assert late == {1: "receipt 1", 2: "receipt 2", 3: "receipt 3"}
