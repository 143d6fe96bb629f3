"""The SQLite ledger under process death, several processes, forks and the end of the interpreter."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fcguard.model.states import CallState
from fcguard.stores.base import Accepted, CallQuery
from fcguard.stores.chain import verify
from fcguard.stores.owner import Liveness
from fcguard.stores.sqlite import SQLiteStore
from fcguard.testing.store_contract import ask, enter, ids, move, open_call

_WORKER = Path(__file__).with_name("ledger_worker.py")
_ROOT = Path(__file__).resolve().parents[2]


def _start(path: Path, prefix: str, calls: int, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(_WORKER), str(path), prefix, str(calls), *options]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _run(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=os.environ | {"PYTHONPATH": str(_ROOT)} | environment,
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStore]:
    made = SQLiteStore(path)
    yield made
    made.close()


def _assert_whole(store: SQLiteStore) -> None:
    verification = verify(store.events(), heads=store.heads(), gaps=store.gaps())
    assert verification.fault is None, str(verification.fault)


@pytest.mark.parametrize("kind", ["enter", "write"])
@pytest.mark.parametrize("seed", range(4))
def test_a_killed_process_loses_nothing_it_acknowledged(path: Path, store: SQLiteStore, kind: str, seed: int) -> None:
    """SIGKILL after a random number of acknowledged records, with four threads writing."""
    process = _start(path, "k", 100_000, "--threads", "4", "--kind", kind)
    assert process.stdout is not None and process.stderr is not None
    wanted = random.Random(seed).randrange(20, 200)
    lines = [process.stdout.readline() for _ in range(wanted)]
    process.kill()
    lines += process.stdout.read().splitlines(keepends=True)
    process.communicate()
    acknowledged = [line.split() for line in lines if line.endswith("\n")]
    assert len(acknowledged) >= wanted
    for word, request_id in acknowledged:
        call = store.get(request_id)
        assert call is not None, request_id
        if word == "done":
            assert (call.state, call.result) == (CallState.SUCCEEDED, {"data": int(request_id[-6:])})
    _assert_whole(store)
    if kind == "write":
        left = {call.identity.request_id for call in store.calls(CallQuery(states=frozenset({CallState.STARTED})))}
        claims = store.claim(limit=1000)
        assert {claim.call.identity.request_id for claim in claims} == left
        assert {claim.liveness for claim in claims} <= {Liveness.DEAD}
        _assert_whole(store)


def test_four_processes_write_one_file(path: Path, store: SQLiteStore) -> None:
    """No error, no lost record, one unbroken chain; all of them start with a file that does not exist."""
    processes = [_start(path, f"p{number}", 50, "--threads", "4", "--task", "shared") for number in range(4)]
    for process in processes:
        out, err = process.communicate(timeout=600)
        assert (process.returncode, err, out.splitlines()[-1]) == (0, "", "finished")
    _assert_whole(store)
    assert len(ids(store.calls())) == 4 * 4 * 50
    assert [event.seq for event in store.events(task_id="shared")] == list(range(1, 801))


def test_a_paused_owner_is_alive_and_its_lapsed_call_can_be_claimed(path: Path, store: SQLiteStore) -> None:
    process = _start(path, "s", 1, "--kind", "open", "--stay")
    try:
        assert process.stdout is not None
        request_id = process.stdout.readline().split()[1]
        assert process.stdout.readline() == "staying\n"  # in no transaction, which nobody could take from it
        process.send_signal(signal.SIGSTOP)
        (claim,) = store.claim(limit=100)
        assert claim.liveness is Liveness.ALIVE, "paused is not dead, though its lease of 0 s lapsed"
        assert claim.previous is not None and claim.previous.pid == process.pid
        call = store.get(request_id)
        assert call is not None and call.owner == store.owner.id
    finally:
        process.kill()
        process.communicate()


def test_what_is_submitted_before_the_interpreter_ends_is_written(path: Path, store: SQLiteStore) -> None:
    finished = _run(
        """
        import sys
        from fcguard.stores.sqlite import SQLiteStore
        from fcguard.testing.store_contract import enter
        store = SQLiteStore(sys.argv[1])
        for number in range(500):
            store.submit(enter(number), lambda answer: None)
        """,
        str(path),
    )
    assert (finished.returncode, finished.stderr) == (0, "")
    assert len(ids(store.calls())) == 500


def test_a_store_that_is_dropped_writes_what_it_took_and_ends_its_thread(path: Path, store: SQLiteStore) -> None:
    finished = _run(
        """
        import gc, sys, threading
        from fcguard.stores.sqlite import SQLiteStore
        from fcguard.testing.store_contract import enter
        store = SQLiteStore(sys.argv[1])
        for number in range(100):
            store.submit(enter(number), lambda answer: None)
        (writer,) = [thread for thread in threading.enumerate() if thread.name.startswith("fcguard-ledger")]
        del store
        gc.collect()
        writer.join(60)
        assert not writer.is_alive()
        """,
        str(path),
    )
    assert (finished.returncode, finished.stderr) == (0, "")
    assert len(ids(store.calls())) == 100


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_and_its_parent_both_write(path: Path, store: SQLiteStore) -> None:
    """Both go on with the store they share. The parent closes first: a child that believed in the parent's locks would then
    write to a log that is already removed."""
    finished = _run(
        """
        import os, sys, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        from fcguard.stores.sqlite import SQLiteStore
        from fcguard.testing.store_contract import ask, enter
        store = SQLiteStore(sys.argv[1])
        for number in range(20):
            ask(store, enter(number))
        assert store.get("fc-20260130-000001") is not None
        events = store.events()
        next(events)
        for number in range(20, 2000):
            store.submit(enter(number), lambda answer: None)
        go, ready = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            ask(store, enter(100_000))
            os.write(ready[1], b"x")
            os.read(go[0], 1)
            for number in range(100_001, 100_050):
                ask(store, enter(number))
            assert len(list(events)) >= 19
            assert store.owner.pid == os.getpid()
            os._exit(0)
        os.read(ready[0], 1)
        for number in range(200_000, 200_050):
            ask(store, enter(number))
        store.close()
        os.write(go[1], b"x")
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        """,
        str(path),
    )
    assert (finished.returncode, finished.stderr) == (0, "")
    assert len(ids(store.calls())) == 2000 + 50 + 50
    _assert_whole(store)
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_what_a_parent_has_queued_is_the_parents(path: Path, store: SQLiteStore) -> None:
    """The child's copies of the callers get an error, the records are written once, by the parent."""
    finished = _run(
        """
        import os, sys, threading, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        from fcguard.errors import StoreClosed
        from fcguard.stores.sqlite import SQLiteStore
        from fcguard.testing.store_contract import ask, enter
        store = SQLiteStore(sys.argv[1])
        ask(store, enter(1))
        held, let_go = threading.Event(), threading.Event()
        store.submit(enter(2), lambda answer: (held.set(), let_go.wait()))
        held.wait()
        answers = []
        store.submit(enter(3), answers.append)
        child = os.fork()
        if child == 0:
            ask(store, enter(4))
            assert [type(answer) for answer in answers] == [StoreClosed], answers
            os._exit(0)
        _, status = os.waitpid(child, 0)
        let_go.set()
        store.close()
        assert status == 0 and answers[0].version == 1, (status, answers)
        """,
        str(path),
    )
    assert (finished.returncode, finished.stderr) == (0, "")
    assert [request_id[-1] for request_id in ids(store.calls())] == ["4", "3", "2", "1"]


def test_a_process_that_died_is_remembered_for_a_week(path: Path) -> None:
    """Whoever recovers a call asks about everybody who had it, so the dead are not forgotten at once."""
    process = _start(path, "d", 1, "--kind", "write")
    process.communicate(timeout=600)
    for days, count in ((1, 2), (8, 2)):
        store = SQLiteStore(path, clock=lambda days=days: time.time() + days * 86400)
        ask(store, enter(days))
        assert len(store.owners()) == count, "after a week the process is forgotten, and this one has been there twice"
        store.close()


def test_an_outcome_spooled_by_a_dead_process_is_drained_before_anything_is_asked(path: Path) -> None:
    finished = _run(
        """
        import os, sys
        from fcguard.model.states import CallState
        from fcguard.stores.sqlite import SQLiteStore
        from fcguard.testing.store_contract import ask, move, open_call
        store = SQLiteStore(sys.argv[1])
        ask(store, open_call(1, effect_key="e"))
        store.spool(move(1, 1, CallState.SUCCEEDED, result={"data": 1}))
        os._exit(1)
        """,
        str(path),
    )
    assert (finished.returncode, finished.stderr) == (1, "")
    store = SQLiteStore(path)
    assert ask(store, open_call(2, effect_key="e")) == Accepted(1), "the effect is done, not open"
    call = store.get("fc-20260130-000001")
    assert call is not None and (call.state, call.result) == (CallState.SUCCEEDED, {"data": 1})
    assert ask(store, move(2, 1, CallState.FAILED)) == Accepted(2)
    store.close()
