"""Shared state: one atomic step, over threads, processes and forks."""

from __future__ import annotations

import multiprocessing
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fcguard import Guard, SQLiteStore
from fcguard.approval import SQLiteApprovals
from fcguard.constraints import MemoryState, SharedState, SQLiteState
from fcguard.errors import ConfigurationError, StoreClosed, StoreUnavailable
from tests.constraints.backends import BACKENDS, close, open_state


def add(amount: int) -> Any:
    return lambda stored: ((stored or 0) + amount, (stored or 0) + amount)


def read(stored: Any) -> Any:
    return stored, stored


@pytest.fixture(params=["memory", *BACKENDS])
def state(request: pytest.FixtureRequest, make_place: Any) -> Any:
    made = MemoryState() if request.param == "memory" else open_state(make_place(request.param))
    yield made
    if not isinstance(made, MemoryState):
        close(made)


def test_states_are_states(state: Any) -> None:
    assert isinstance(state, SharedState)
    assert state.is_shared != isinstance(state, MemoryState)


def test_values_are_changed_kept_and_deleted(state: Any) -> None:
    assert state.change("a", add(2)) == 2 and state.change("a", add(3)) == 5 and state.change("b", add(1)) == 1
    assert state.change("a", lambda stored: (None, stored)) == 5
    assert state.change("a", read) is None and state.change("b", read) == 1


def test_a_change_that_raises_changes_nothing(state: Any) -> None:
    state.change("a", add(1))
    with pytest.raises(ZeroDivisionError):
        state.change("a", lambda stored: (1 / 0, None))
    assert state.change("a", add(1)) == 2


def test_threads_lose_no_change(state: Any) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: state.change("n", add(1)), range(200)))
    assert state.change("n", read) == 200


def _add_often(place: str, times: int) -> None:
    state = open_state(place)
    for _ in range(times):
        state.change("n", add(1))
    close(state)


def test_processes_lose_no_change(processes: Any, place: str) -> None:
    """They also find the place empty, and make what is missing at the same time."""
    processes.starmap(_add_often, [(place, 50)] * 4, chunksize=1)
    state = open_state(place)
    assert state.change("n", read) == 200
    close(state)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_usable_after_a_fork(tmp_path: Path) -> None:
    state = SQLiteState(tmp_path / "s.db")
    state.change("n", add(1))
    child = multiprocessing.get_context("fork").Process(target=state.change, args=("n", add(10)))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert state.change("n", add(1)) == 12
    state.close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_child_ends_although_a_thread_of_its_parent_was_at_work_when_it_was_forked(
    kind: str, make_place: Any
) -> None:
    state: Any = open_state(make_place(kind))
    state.change("n", add(1))
    child = multiprocessing.get_context("fork").Process(target=state.close)
    with state._lock:  # as another thread does
        child.start()
    child.join(20)
    exit_code = child.exitcode
    child.kill()
    assert exit_code == 0
    assert state.change("n", add(1)) == 2, "what is the parent's stays open"
    state.close()


def test_closed_and_unusable_files_say_so(tmp_path: Path) -> None:
    state = SQLiteState(tmp_path / "s.db")
    state.close()
    state.close()
    with pytest.raises(StoreClosed):
        state.change("n", add(1))
    with pytest.raises(StoreUnavailable):
        SQLiteState(tmp_path / "missing" / "s.db")
    junk = tmp_path / "junk"
    junk.write_bytes(b"no database here" * 100)
    with pytest.raises(StoreUnavailable):
        SQLiteState(junk)


@pytest.mark.parametrize("is_ledger_first", [True, False])
def test_state_and_approvals_may_lie_in_the_ledgers_own_file(tmp_path: Path, is_ledger_first: bool) -> None:
    path = tmp_path / "ledger.db"

    def call(store: SQLiteStore) -> bool:
        with Guard(store=store, evidence_dir=tmp_path / "evidence") as guard:
            guard.tool(lambda n: n, name="save", effect="write")
            with guard.task("save"):
                return bool(guard.call("save", {"n": 1}).success)

    if is_ledger_first:
        assert call(SQLiteStore(path))
    state, approvals = SQLiteState(path), SQLiteApprovals(path)
    state.change("n", add(1))
    assert call(SQLiteStore(path))
    assert state.change("n", add(1)) == 2 and approvals.requests() == []
    assert path.stat().st_mode & 0o777 == 0o600
    state.close()


def test_what_nobody_changed_for_long_is_forgotten(tmp_path: Path) -> None:
    old = SQLiteState(tmp_path / "s.db")
    old.change("old", add(1))
    old.close()
    state = SQLiteState(tmp_path / "s.db", ttl_seconds=60)
    connection = sqlite3.connect(tmp_path / "s.db")
    connection.execute("UPDATE fc_state SET changed_at = changed_at - 61")
    connection.commit()
    state.change("new", add(1))
    assert [key for (key,) in connection.execute("SELECT key FROM fc_state")] == ["new"]
    for n in range(1000):
        state.change(str(n), add(1))
    connection.execute("UPDATE fc_state SET changed_at = changed_at - 61")
    connection.commit()
    for _ in range(1000):
        state.change("new", add(1))
    assert [key for (key,) in connection.execute("SELECT key FROM fc_state")] == ["new"]
    connection.close()
    state.close()


def test_a_change_that_changes_nothing_waits_for_nobody(tmp_path: Path) -> None:
    state = SQLiteState(tmp_path / "s.db", timeout=0.01)
    state.change("n", add(1))
    holder = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    assert state.change("n", read) == 1
    holder.execute("ROLLBACK")
    holder.close()
    state.close()


@pytest.mark.parametrize("options", [{"timeout": 0}, {"timeout": float("nan")}, {"ttl_seconds": -1}])
def test_options_that_make_no_sense_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        SQLiteState(tmp_path / "s.db", **options)


def test_a_locked_file_refuses_and_works_again(tmp_path: Path) -> None:
    state = SQLiteState(tmp_path / "s.db", timeout=0.01)
    holder = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked"):
        state.change("n", add(1))
    holder.execute("ROLLBACK")
    holder.close()
    assert state.change("n", add(1)) == 1
    state.close()


def test_threads_do_not_wait_one_after_another_for_a_file_that_is_held(tmp_path: Path) -> None:
    state, waited = SQLiteState(tmp_path / "s.db", timeout=0.5), []
    holder = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")

    def wait(_: int) -> None:
        began = time.monotonic()
        with pytest.raises(StoreUnavailable):
            state.change("n", add(1))
        waited.append(time.monotonic() - began)

    with ThreadPoolExecutor(40) as pool:
        list(pool.map(wait, range(40)))
    assert len(waited) == 40 and max(waited) < 15.0, "one after another, the last one would wait twenty seconds"
    holder.execute("ROLLBACK")
    holder.close()
    assert state.change("n", add(1)) == 1
    state.close()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(value=JSON, key=st.text(max_size=20).filter(lambda text: "\x00" not in text and text.isprintable()))
def test_values_come_back(state: Any, value: Any, key: str) -> None:
    state.change(key, lambda stored: (value, None))
    assert state.change(key, read) == value
