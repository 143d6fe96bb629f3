"""Observers of the host: whatever they raise, the call has its envelope, and the log says which of them failed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fcguard import Applied, Guard, MemoryStore, Retry, SQLiteStore
from fcguard.errors import ConfigurationError
from fcguard.telemetry.contained import contained
from fcguard.telemetry.observer import LedgerObserver, Observers, SilentObserver
from fcguard.telemetry.standard import default_observer

METHODS = (
    "call_started",
    "call_ended",
    "attempt_started",
    "attempt_ended",
    "recovery_started",
    "recovery_ended",
    "stage",
)


class Raising(SilentObserver):
    """Raises in one method, and counts how often it was told."""

    wants_stages = True

    def __init__(self, method: str) -> None:
        self.told = 0
        setattr(self, method, self._raise)

    def _raise(self, *args: Any) -> None:
        self.told += 1
        raise RuntimeError("password=hunter2")


class Undecided(SilentObserver):
    @property
    def wants_stages(self) -> bool:
        raise RuntimeError("password=hunter2")


def run(observer: Any, store: Any = None) -> list[Any]:
    with Guard(store=store or MemoryStore(), observer=observer) as guard:
        sent: list[str] = []

        @guard.tool(effect="read", retry=Retry(attempts=2, wait=lambda state: 0.0))
        def find(key: str) -> str:
            sent.append(key)
            if len(sent) == 1:
                raise ConnectionError
            return key

        @guard.tool(effect="write", confirm=lambda call: Applied("there"))
        def put(key: str) -> str:
            raise TimeoutError

        with guard.task("watch"):
            return [find("a"), put("b"), guard.call("nosuch", {})]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.WARNING, logger="fcguard.telemetry"):
        yield caplog


@pytest.mark.parametrize("method", METHODS)
def test_what_an_observer_raises_stays_with_it(method: str, lines: pytest.LogCaptureFixture) -> None:
    observer = Raising(method)
    results = run(observer)
    assert [(one.success, one.error_type) for one in results] == [(True, None), (True, None), (False, "TOOL_UNKNOWN")]
    assert observer.told > 0
    assert f"the observer Raising failed in {method} with RuntimeError" in lines.text
    assert "hunter2" not in lines.text


def test_an_observer_that_cannot_say_whether_it_wants_stages_gets_none(lines: pytest.LogCaptureFixture) -> None:
    assert [one.success for one in run(Undecided())] == [True, True, False]
    assert "Undecided failed in wants_stages" in lines.text


def test_several_observers_one_of_which_raises(lines: pytest.LogCaptureFixture) -> None:
    assert [one.success for one in run(Observers([default_observer(), Raising("call_started")]))] == [True, True, False]
    assert "failed in call_started" in lines.text


def test_what_an_observer_wants_to_hear_of_the_ledger_is_passed_on(
    lines: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    class OfLedger(SilentObserver):
        def watch_unresolved(self, ask: Any, *, ledger: Any = None) -> None:
            assert ask() == 0
            raise RuntimeError

        def evidence_written(self, seconds: float, *, is_failed: bool = False) -> None:
            raise RuntimeError

    assert isinstance(contained(OfLedger()), LedgerObserver)
    assert not isinstance(contained(Raising("stage")), LedgerObserver)
    assert [one.success for one in run(OfLedger(), SQLiteStore(tmp_path / "ledger.db"))] == [True, True, False]
    assert "failed in watch_unresolved" in lines.text
    assert "failed in evidence_written" in lines.text


def test_the_observers_of_fcguard_are_not_wrapped() -> None:
    for observer in (default_observer(), SilentObserver()):
        assert contained(observer) is observer


@pytest.mark.parametrize("observer", [5, object(), Raising])
def test_what_is_no_observer_is_refused(observer: Any) -> None:
    with pytest.raises(ConfigurationError, match="no Observer"):
        Guard(store=MemoryStore(), observer=observer)
