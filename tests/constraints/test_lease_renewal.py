"""Leases are renewed while calls run, however long, and lapse when their process is gone."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fcguard import Guard, MemoryStore
from fcguard.constraints import Concurrency, MemoryState, ResourcePool
from fcguard.constraints.heartbeat import Heartbeat
from fcguard.errors import StoreUnavailable, UsageError
from fcguard.model.attempt import Late
from tests.constraints.backends import close, open_state
from tests.constraints.conftest import build_call

LEASE = 6.0
"""Seconds: renewed every third of it, so that a process may stand still for four of them."""

CALL = 7.0


class SharedInMemory(MemoryState):
    """Shared by two pools of one process, and out of reach when it is told to be."""

    is_shared = True
    is_down = False

    def change(self, key: str, change: Any) -> Any:
        if self.is_down:
            raise StoreUnavailable("out of reach")
        return super().change(key, change)


class Two:
    """Two pools of one account, as two processes have them, and the clock on the wall."""

    def __init__(self) -> None:
        self.state, self.now = SharedInMemory(), 1000.0
        self.first, self.second = (
            ResourcePool("qa", ["a"], state=self.state, lease_seconds=60, wall=lambda: self.now) for _ in range(2)
        )

    def renew(self) -> None:
        """What the thread does every third of a lease."""
        self.first._leases.renew()


@pytest.fixture
def two() -> Two:
    return Two()


def test_a_renewed_lease_does_not_lapse(two: Two, make_attempt: Any) -> None:
    call = build_call()
    two.first.admit(call, 0)
    for _ in range(10):
        two.now += 59
        assert two.second.admit(build_call(), 0) is not None
        two.renew()
    two.first.settle(call, make_attempt(call), 0)
    assert two.second.admit(build_call(), 0) is None
    two.renew()
    assert two.second.admit(build_call(), 0) is not None, "what was given back is not renewed"


def test_an_abandoned_thread_keeps_its_lease_until_it_ends(two: Two, make_attempt: Any) -> None:
    call, late = build_call(), Late()
    two.first.admit(call, 0)
    attempt = make_attempt(call, error_type="TIMEOUT")
    attempt.late = late
    two.first.settle(call, attempt, 1)
    for _ in range(4):
        two.now += 50
        two.renew()
        assert two.second.admit(build_call(), 0) is not None
    late.returned(None)
    two.renew()
    assert two.second.admit(build_call(), 0) is None, "given back without waiting for the next call of the pool"


def test_a_state_out_of_reach_costs_nothing_as_long_as_it_comes_back_in_time(two: Two) -> None:
    call = build_call()
    two.first.admit(call, 0)
    two.now += 40
    two.state.is_down = True
    with pytest.raises(StoreUnavailable):
        two.renew()
    two.state.is_down = False
    two.renew()
    two.now += 59
    assert two.second.admit(build_call(), 0) is not None and two.first.leased(call.request_id) == "a"


def test_a_lease_that_lapsed_is_taken_up_again_unless_somebody_has_it(two: Two, make_attempt: Any) -> None:
    call, other = build_call(), build_call()
    two.first.admit(call, 0)
    two.now += 61
    two.renew()
    assert two.second.admit(other, 0) is not None, "nobody had it"
    two.now += 61
    assert two.second.admit(other, 0) is None
    two.renew()
    with pytest.raises(UsageError, match="lost its lease of 'qa'"):
        two.first.leased(call.request_id)
    assert two.second.leased(other.request_id) == "a"
    two.first.settle(call, make_attempt(call), 0)
    assert two.second.admit(build_call(), 0) is not None, "it gives back what is its own"
    with pytest.raises(UsageError, match="no lease"):
        two.first.leased(call.request_id)


def test_a_state_in_memory_needs_no_thread() -> None:
    pool = ResourcePool("qa", ["a"])
    pool.admit(build_call(), 0)
    assert pool._leases._heart._thread is None


def test_the_thread_ends_when_nothing_is_held_and_comes_back() -> None:
    held, beats = [True], threading.Semaphore(0)
    heart = Heartbeat(beats.release, lambda: held[0], 0.01, "test")
    for _ in range(2):
        held[0] = True
        heart.start()
        thread = heart._thread
        heart.start()
        assert heart._thread is thread and thread is not None, "one thread is enough"
        assert beats.acquire(timeout=60) and beats.acquire(timeout=60)
        held[0] = False
        thread.join(60)
        assert not thread.is_alive() and heart._thread is None


def test_a_beat_that_fails_is_not_the_last() -> None:
    beats = threading.Semaphore(0)

    def renew() -> None:
        beats.release()
        raise StoreUnavailable("out of reach")

    over = threading.Event()
    heart = Heartbeat(renew, lambda: not over.is_set(), 0.01, "test")
    heart.start()
    assert all(beats.acquire(timeout=60) for _ in range(3))
    over.set()


def test_a_lease_that_no_thread_can_renew_is_given_back(two: Two, monkeypatch: Any) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    call = build_call()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            two.first.admit(call, 0)
    assert not two.first._leases._holds_any()
    assert two.second.admit(build_call(), 0) is None, "it is free again"
    two.now += 61
    assert two.first.admit(call, 0) is None and two.first._leases._heart._thread.is_alive()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_renews_its_own_leases_and_not_its_parents() -> None:
    pool = ResourcePool("qa", ["a", "b"], state=SharedInMemory(), lease_seconds=60)
    pool.admit(build_call(), 0)

    def child() -> None:
        mine = build_call()
        assert pool.admit(mine, 0) is None and pool.leased(mine.request_id) == "b"
        leases = pool._leases
        os._exit(0 if list(leases._held) == [mine.request_id] and leases._heart._thread.is_alive() else 1)

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(60)
    assert process.exitcode == 0 and pool._leases._holds_any()


def _act(place: str, directory: str, worker: int, is_async: bool) -> list[str]:
    """Make calls that last longer than a lease; every member is taken by making a file that must not be there."""
    state = open_state(place)
    pool = ResourcePool("qa", ["ann", "bob"], state=state, lease_seconds=LEASE)
    guard = Guard(store=MemoryStore(), evidence_dir=Path(directory) / "evidence")
    acted = []

    def begin() -> Path:
        mark = Path(directory) / pool.leased()
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        return mark

    def end(mark: Path) -> None:
        assert pool.leased() == mark.name
        mark.unlink()
        acted.append(mark.name)

    def act() -> None:
        mark = begin()
        time.sleep(CALL)
        end(mark)

    async def act_async() -> None:
        mark = begin()
        await asyncio.sleep(CALL)
        end(mark)

    act.__name__ = act_async.__name__ = "act"
    guard.tool(act_async if is_async else act, effect="read", retry=1, constraints=[pool])
    until = time.monotonic() + 120
    while not acted and time.monotonic() < until:
        result = asyncio.run(guard.acall("act", {})) if is_async else guard.call("act", {})
        assert result.success or result.error_type == "ACCOUNT_POOL_EMPTY", result.message
        time.sleep(0.02)
    guard.close()
    close(state)
    return acted


@pytest.mark.parametrize("is_async", [False, True])
def test_four_processes_never_share_an_account_though_calls_outlast_their_leases(
    processes: Any, make_place: Any, tmp_path: Path, is_async: bool
) -> None:
    jobs = [(make_place("sqlite"), str(tmp_path), worker, is_async) for worker in range(4)]
    acted = processes.starmap(_act, jobs, chunksize=1)
    assert sorted(name for names in acted for name in names) == ["ann", "ann", "bob", "bob"]
    assert not list(tmp_path.glob("ann")) + list(tmp_path.glob("bob"))


def test_the_lease_of_a_killed_process_lapses_and_not_before(start_workers: Callable[..., list[Any]]) -> None:
    first, second = start_workers(2, pool={"lease_seconds": LEASE})
    first.tell(do="wait")
    assert first.hear() == {"entered": "ann"}
    until = time.monotonic() + 1.25 * LEASE
    while time.monotonic() < until:
        assert second.call()["error_type"] == "ACCOUNT_POOL_EMPTY", "the call still runs"
        time.sleep(0.05)
    first.kill()
    assert second.call()["error_type"] == "ACCOUNT_POOL_EMPTY"
    assert second.call(later=LEASE + 1.0)["success"]


def test_places_are_renewed_like_accounts() -> None:
    now = [1000.0]
    state = SharedInMemory()
    first, second = (Concurrency(1, state=state, lease_seconds=60, wall=lambda: now[0]) for _ in range(2))
    first.admit(build_call(), 0)
    for _ in range(3):
        now[0] += 50
        first._leases.renew()
        assert second.admit(build_call(), 0).code == "RESOURCE_EXHAUSTED"
    now[0] += 60
    assert second.admit(build_call(), 0) is None
