"""Owners that are paused, killed while paused, forked, or many at once; each test with real processes on one SQLite file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fcguard import Guard
from fcguard.reconcile.report import Recovered
from fcguard.stores.audit import audit
from fcguard.stores.base import CallQuery
from tests.crash.crash_worker import make_guard, make_store

_WORKER = Path(__file__).with_name("crash_worker.py")
_ROOT = Path(__file__).resolve().parents[2]


def start(role: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, str(_WORKER), role, str(folder / "ledger.db"), str(folder), "-"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def effects(folder: Path) -> int:
    path = folder / "effects"
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[Guard]:
    made = make_guard(make_store(str(tmp_path / "ledger.db"), tmp_path, "-"), tmp_path, "", "sync")
    yield made
    assert audit(made.store).fault is None
    made.close()


@pytest.fixture
def paused(tmp_path: Path, guard: Guard) -> Iterator[subprocess.Popen[str]]:
    """A process that is stopped in its tool, before it sends; its lease lapsed at once."""
    process = start("hold", tmp_path)
    assert line(process) == "in the tool"
    process.send_signal(signal.SIGSTOP)
    yield process
    process.kill()
    process.communicate()


def recover_one(guard: Guard, **options: Any) -> Recovered:
    """Recover until the one open call is there to be taken."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = guard.recover(wait=0.0, **options)
        if found.calls:
            return found.calls[0]
    raise AssertionError(f"nothing could be taken: {found}")


def test_a_paused_owner_is_not_dead_so_its_write_is_not_sent_again(
    guard: Guard, paused: subprocess.Popen[str], tmp_path: Path
) -> None:
    call = recover_one(guard)
    assert (call.owner, call.did, call.state) == ("alive", "parked", "PARKED")
    assert "is not proved dead" in call.message
    assert effects(tmp_path) == 0
    again = guard.advance(call.request_id)
    assert (again.success, again.effect, again.attempts) == (False, "unknown", 1)


def test_what_a_paused_owner_does_after_all_counts_and_nothing_is_sent_twice(
    guard: Guard, paused: subprocess.Popen[str], tmp_path: Path
) -> None:
    call = recover_one(guard)
    paused.send_signal(signal.SIGCONT)
    out, _ = paused.communicate("go\n", timeout=600)
    said = json.loads(out)
    assert (said["success"], said["flags"]) == (True, ["taken_over"])
    assert effects(tmp_path) == 1
    result = guard.advance(call.request_id)
    assert (result.success, result.outcome_basis, result.data) == (True, "late", said["data"])
    assert effects(tmp_path) == 1


def test_once_the_paused_owner_is_killed_its_write_is_sent_once(
    guard: Guard, paused: subprocess.Popen[str], tmp_path: Path
) -> None:
    call = recover_one(guard)
    paused.kill()
    paused.communicate()
    waiting = guard.advance(call.request_id)
    assert (waiting.success, waiting.next_action) == (False, "confirm_state"), (
        "first the settle window, from the proof of death on"
    )
    assert effects(tmp_path) == 0
    found = guard.recover()
    assert [(one.request_id, one.did, one.attempts) for one in found.calls] == [(call.request_id, "returned", 2)]
    assert effects(tmp_path) == 1


def test_a_living_owner_with_a_lease_is_left_alone(guard: Guard, tmp_path: Path) -> None:
    process = start("contend", tmp_path)
    assert line(process) == "ready"
    process.communicate("go\n", timeout=600)
    assert guard.recover().calls == ()
    assert [call.state for call in guard.store.calls()] == ["SUCCEEDED"]


def test_four_processes_with_one_business_key_make_one_effect(guard: Guard, tmp_path: Path) -> None:
    processes = [start("contend", tmp_path) for _ in range(4)]
    assert [line(process) for process in processes] == ["ready"] * 4
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [json.loads(process.communicate(timeout=600)[0]) for process in processes]
    assert effects(tmp_path) == 1
    assert {one["outcome_basis"] for one in said if one["success"]} <= {"returned", "replayed"}
    assert [one["outcome_basis"] for one in said].count("returned") == 1
    for one in said:
        assert one["success"] or one["next_action"] == "confirm_state", one


def test_four_recoveries_at_once_act_once(guard: Guard, tmp_path: Path) -> None:
    killed = start("hold", tmp_path)
    assert line(killed) == "in the tool"
    killed.kill()
    killed.communicate()
    command = [sys.executable, str(_WORKER), "recover", "sync", str(tmp_path / "ledger.db"), str(tmp_path), "-"]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    said = [process.communicate(timeout=600) for process in processes]
    assert [err for _, err in said if err] == []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and list(guard.store.calls(CallQuery(states=frozenset({"UNCERTAIN"})))):
        guard.recover()
    assert effects(tmp_path) == 1
    (call,) = guard.store.calls(CallQuery(tool="create_order"))
    assert (call.state, call.attempt) == ("SUCCEEDED", 2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_is_an_owner_of_its_own(guard: Guard, tmp_path: Path) -> None:
    """The child of a process that has the ledger open dies in a write; its parent, which lives on, recovers it."""
    code = """
        import os, sys, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        from pathlib import Path
        from tests.crash.crash_worker import ORDER, make_guard, make_store
        folder = Path(sys.argv[1])
        store = make_store(str(folder / "ledger.db"), folder, "-")
        dying = make_guard(store, folder, "sent-no-reply", "sync")
        mending = make_guard(store, folder, "", "sync")
        assert store.owner.pid == os.getpid() and mending.recover().calls == ()
        child = os.fork()
        if child == 0:
            with dying.task("create an order", task_id="crash"):
                dying.call("create_order", ORDER)
        assert os.waitpid(child, 0)[1] == 9
        found = mending.recover()
        print([(call.owner, call.did) for call in found.calls])
        mending.close()
    """
    finished = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)],
        capture_output=True, text=True, timeout=600, check=False, env=os.environ | {"PYTHONPATH": str(_ROOT)},
    )  # fmt: skip
    assert (finished.stderr, finished.stdout.strip()) == ("", "[('dead', 'confirmed')]")
    assert effects(tmp_path) == 1
