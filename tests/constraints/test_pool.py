"""Places and accounts: never more than there are, never one account to two, whatever runs where."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fcguard.constraints import Concurrency, Constraint, ResourcePool, SQLiteState
from fcguard.errors import ConfigurationError, NoCurrentCallError, UsageError
from fcguard.model.attempt import Late
from fcguard.model.call import Call
from fcguard.model.call_info import CURRENT, CallInfo
from fcguard.model.context import Environment, TaskContext
from fcguard.model.failure import FailureClass, class_of
from fcguard.model.intent import Intent
from fcguard.model.tool import Tool


@pytest.fixture
def states(tmp_path: Path) -> Any:
    made: list[SQLiteState] = []

    def make(name: str = "s.db") -> SQLiteState:
        made.append(SQLiteState(tmp_path / name, timeout=30))
        return made[-1]

    yield make
    for state in made:
        state.close()


def test_no_more_than_the_limit_run_at_once(make_call: Any, make_attempt: Any) -> None:
    bulkhead = Concurrency(2)
    calls = [make_call() for _ in range(3)]
    assert [bulkhead.admit(call, 0) is None for call in calls] == [True, True, False]
    assert bulkhead.admit(calls[2], 0).code == "RESOURCE_EXHAUSTED"
    bulkhead.settle(calls[0], make_attempt(calls[0], error_type="TIMEOUT"), 1)
    assert bulkhead.admit(calls[2], 2) is None
    bulkhead.settle(calls[1], None, 3)
    assert bulkhead.admit(make_call(), 4) is None
    bulkhead.settle(make_call(), None, 5)
    assert isinstance(bulkhead, Constraint)


def test_abandoned_threads_count_until_they_end(make_call: Any, make_attempt: Any) -> None:
    bulkhead, call, late = Concurrency(1), make_call(), Late()
    heard = []
    late.on_end(heard.append)
    bulkhead.admit(call, 0)
    attempt = make_attempt(call, error_type="TIMEOUT")
    attempt.late = late
    bulkhead.settle(call, attempt, 1)
    refused = bulkhead.admit(make_call(), 2)
    assert "1 of them abandoned" in refused.message
    late.returned("at last")
    assert bulkhead.admit(make_call(), 3) is None
    assert heard == [late], "the ledger still hears it"


def test_a_thread_that_ended_already_holds_nothing(make_call: Any, make_attempt: Any) -> None:
    bulkhead, call = Concurrency(1), make_call()
    bulkhead.admit(call, 0)
    attempt = make_attempt(call, error_type="TIMEOUT")
    attempt.late = Late()
    attempt.late.raised(ValueError())
    bulkhead.settle(call, attempt, 1)
    assert bulkhead.admit(make_call(), 2) is None


def test_places_are_counted_by_key(make_call: Any) -> None:
    bulkhead = Concurrency(1, key=lambda call: call.tool.name)
    assert bulkhead.admit(make_call("a"), 0) is None and bulkhead.admit(make_call("b"), 0) is None
    assert bulkhead.admit(make_call("a"), 0) is not None


def test_threads_never_exceed_the_limit(make_call: Any) -> None:
    bulkhead = Concurrency(5)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda call: bulkhead.admit(call, 0), [make_call() for _ in range(100)])).count(None) == 5


def test_a_pool_leases_each_account_once(make_call: Any, make_attempt: Any) -> None:
    pool = ResourcePool("qa", ["a", "b"])
    calls = [make_call() for _ in range(3)]
    assert pool.admit(calls[0], 0) is None and pool.admit(calls[1], 0) is None
    assert {pool.leased(call.request_id) for call in calls[:2]} == {"a", "b"}
    refused = pool.admit(calls[2], 0)
    assert refused.code == "ACCOUNT_POOL_EMPTY" and class_of(refused.code) is FailureClass.ENVIRONMENT
    with pytest.raises(UsageError, match="no lease"):
        pool.leased(calls[2].request_id)
    pool.settle(calls[0], make_attempt(calls[0]), 1)
    assert pool.admit(calls[2], 2) is None and pool.leased(calls[2].request_id) == "a"


def test_the_tool_asks_which_account_it_has(make_call: Any, make_attempt: Any) -> None:
    pool, call = ResourcePool("qa", ["a"]), make_call()
    pool.admit(call, 0)
    with pytest.raises(NoCurrentCallError):
        pool.leased()
    token = CURRENT.set(CallInfo(call, make_attempt(call), lambda: 0.0, lambda *_: None))
    assert pool.leased() == "a"
    CURRENT.reset(token)


def test_a_task_keeps_its_account_if_it_is_free(make_call: Any, make_attempt: Any, make_task: Any) -> None:
    pool, task, other = ResourcePool("qa", ["a", "b", "c"]), make_task(), make_task()
    blocker, call = make_call(task=other), make_call(task=task)
    pool.admit(blocker, 0)
    pool.admit(call, 0)
    assert pool.leased(call.request_id) == "b"
    for one in (blocker, call):
        pool.settle(one, make_attempt(one), 1)
    again = make_call(task=task)
    pool.admit(again, 2)
    assert pool.leased(again.request_id) == "b"


def test_an_abandoned_thread_keeps_its_account(make_call: Any, make_attempt: Any) -> None:
    pool, call, late = ResourcePool("qa", ["a"]), make_call(), Late()
    pool.admit(call, 0)
    attempt = make_attempt(call, error_type="TIMEOUT")
    attempt.late = late
    pool.settle(call, attempt, 1)
    assert pool.admit(make_call(), 2) is not None
    late.returned(None)
    assert pool.admit(make_call(), 3) is None


def test_pools_by_environment(make_call: Any) -> None:
    pool = ResourcePool("accounts", {"qa": ["a"], "load": ["b"]})

    def call(name: str | None) -> Any:
        return make_call(context=TaskContext(environment=Environment(name="t", account_pool=name)))

    first = call("load")
    assert pool.admit(first, 0) is None and pool.leased(first.request_id) == "b"
    assert "'prod'" in pool.admit(call("prod"), 0).message
    assert pool.admit(make_call(), 0).code == "ACCOUNT_POOL_EMPTY"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ResourcePool("p", []),
        lambda: ResourcePool("p", "abc"),
        lambda: ResourcePool("p", ["a", "a"]),
        lambda: ResourcePool("p", {"x": ["a"], "y": ["a"]}),
        lambda: ResourcePool("p", [1]),
        lambda: ResourcePool("p", ["a"], lease_seconds=0),
        lambda: Concurrency(0),
    ],
)
def test_options_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError):
        wrong()


def test_a_shared_lease_lapses_only_after_its_time(make_call: Any, make_attempt: Any, states: Any) -> None:
    wall = [1000.0]
    first, second = (
        ResourcePool("qa", ["a"], state=states(), lease_seconds=60, wall=lambda: wall[0]) for _ in range(2)
    )
    lost = make_call()
    assert first.admit(lost, 0) is None
    wall[0] += 59
    assert second.admit(make_call(), 0) is not None
    wall[0] += 1
    taken = make_call()
    assert second.admit(taken, 0) is None
    first.settle(lost, make_attempt(lost), 1)
    assert second.admit(make_call(), 0) is not None, "the old holder does not free the new one's lease"


def _call(name: str) -> Call:
    call = Call(name, Intent("t"), "primary", None, None)
    call.tool = Tool(name="t", parameters={}, fn=print)
    call.context = TaskContext()
    return call


def _lease_often(path: str, worker: int, members: int, times: int) -> list[tuple[str, str, int]]:
    """Take and give back, and note when: the counter of the file puts all processes into one order."""
    state = SQLiteState(path, timeout=30)
    pool = ResourcePool("qa", [f"m{n}" for n in range(members)], state=state)
    log: list[tuple[str, str, int]] = []

    def tick() -> int:
        return state.change("tick", lambda stored: ((stored or 0) + 1, (stored or 0) + 1))

    for n in range(times):
        call = _call(f"{worker}-{n}")
        if pool.admit(call, 0.0) is None:
            member = pool.leased(call.request_id)
            log.append(("take", member, tick()))
            log.append(("give", member, tick()))
            pool.settle(call, None, 0.0)
    state.close()
    return log


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(members=st.integers(1, 4))
def test_four_processes_never_lease_one_account_twice(processes: Any, tmp_path: Path, members: int) -> None:
    path = str(tmp_path / f"{next(_files)}.db")
    logs = processes.starmap(_lease_often, [(path, worker, members, 30) for worker in range(4)], chunksize=1)
    held: set[str] = set()
    taken = 0
    for what, member, _ in sorted((row for log in logs for row in log), key=lambda row: row[2]):
        if what == "take":
            assert member not in held, f"{member} was leased twice"
            held.add(member)
            taken += 1
        else:
            held.remove(member)
    assert taken > 0 and not held


_files = count()


@given(
    steps=st.lists(st.tuples(st.sampled_from(["admit", "settle", "abandon", "end"]), st.integers(0, 5)), max_size=60)
)
def test_leases_against_a_model(make_call: Any, make_attempt: Any, steps: list[tuple[str, int]]) -> None:
    pool, running, abandoned = ResourcePool("qa", ["a", "b", "c"]), [], []
    for step, n in steps:
        if step == "admit":
            call = make_call()
            refused = pool.admit(call, 0)
            assert (refused is None) == (len(running) + len(abandoned) < 3)
            if refused is None:
                taken = {pool.leased(other.request_id) for other in running} | {member for member, _ in abandoned}
                assert pool.leased(call.request_id) not in taken
                running.append(call)
        elif step == "end" and abandoned:
            abandoned.pop(n % len(abandoned))[1].returned(None)
        elif step in ("settle", "abandon") and running:
            call = running.pop(n % len(running))
            attempt = make_attempt(call, error_type="TIMEOUT")
            if step == "abandon":
                attempt.late = Late()
                abandoned.append((pool.leased(call.request_id), attempt.late))
            pool.settle(call, attempt, 0)
