"""Walk every order of events that can befall a write: two workers, crashes, pauses, lost and late messages, takeover.

The ledger's part is the library's own: the transition table, the compare-and-set on the version, the keys and the rule of who
may be claimed. The world's part is a server that can apply a request late, never, or without its answer being heard. The
workers follow the protocol of `docs/ledger.md`; each of its safeguards can be switched off to see what it prevents, and each
risk that a user can accept can be switched on to see what it costs.

    python -m tests.stores.explorer        prints the trace that each risk and each missing safeguard allows
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from fcguard.model.states import OPEN_STATES, TERMINAL_STATES, CallState, is_transition
from fcguard.stores.base import Blocked, Event, Move
from fcguard.stores.judge import Holder, is_claimable, judge_move, judge_open
from fcguard.stores.owner import Liveness
from fcguard.testing.store_contract import identity

__all__ = ["Finding", "Protocol", "explore"]

_S = CallState
_MOST_ATTEMPTS = 2
_MOST_CLAIMS = 2


@dataclass(frozen=True, slots=True)
class Protocol:
    """How the workers behave.

    Attributes:
        intent: commit the intent before sending.
        settle: after "not applied", wait until nothing sent can land any more, and read again.
        effect_key: a second write of the same effect is blocked while one is open.
        proof: an owner counts as dead only if it is proved dead.
        watch_threads: do not send again while a function that was given up on may still send.
        window: the tool declares how long a request can take to land (`settle=`).
        server_removes_duplicates: the tool declares `idempotency_key=True`, and the server keeps its word.
        is_remote: the workers are on different hosts, so that a death cannot be proved.
        assume_dead: RISK `assume_dead_after=`: a lapsed lease counts as death.
        window_too_short: RISK: the declared window is wrong, a request lands after it.
        unlicensed: RISK: send again after any "not applied".
        accept_other: RISK: the wanted state counts as ours, whoever brought it about.
        others: somebody else can bring about the same state.
        person: somebody resolves what is parked, truthfully, while workers may look at it again.
    """

    intent: bool = True
    settle: bool = True
    effect_key: bool = True
    proof: bool = True
    watch_threads: bool = True
    window: bool = True
    server_removes_duplicates: bool = False
    is_remote: bool = False
    assume_dead: bool = False
    window_too_short: bool = False
    unlicensed: bool = False
    accept_other: bool = False
    others: bool = False
    person: bool = False


class At(StrEnum):
    """Where a worker stands in its program."""

    NEW = "new"
    SENDING = "sending"
    WAITING = "waiting"
    HAS_ANSWER = "has_answer"
    HAS_REFUSAL = "has_refusal"
    HAS_NOTHING = "has_nothing"
    UNCERTAIN = "uncertain"
    READING = "reading"
    READ_APPLIED = "read_applied"
    READ_OTHER = "read_other"
    READ_NOTHING = "read_nothing"
    SETTLING = "settling"
    READING_AGAIN = "reading_again"
    READ_NOTHING_AGAIN = "read_nothing_again"
    IDLE = "idle"
    SAW_EFFECT = "saw_effect"
    DONE = "done"
    DEAD = "dead"


class Worker(NamedTuple):
    """A process.

    `trusts`: it may take the earlier owner for dead. `thread`: the attempt whose abandoned function may still send.
    `doubts`: an earlier attempt is not known to be not applied, so that the refusal of a later one proves nothing.
    """

    at: At
    version: int = 0
    attempt: int = 0
    trusts: bool = True
    is_paused: bool = False
    thread: int = 0
    doubts: bool = False


class Row(NamedTuple):
    """The call in the ledger."""

    state: CallState
    version: int
    attempt: int
    owner: int


class State(NamedTuple):
    """Everything. `requests` are what became of each attempt: `pending`, `landed`, `lost`, `refused`."""

    row: Row | None
    workers: tuple[Worker, Worker]
    requests: tuple[str, ...]
    claims: int
    again: str
    other: bool


class Finding(NamedTuple):
    """A state that must not be, and how it came about."""

    what: str
    trace: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(
            [*(f"  {number}. {step}" for number, step in enumerate(self.trace, start=1)), f"  => {self.what}"]
        )


class Outcome(NamedTuple):
    """What the walk found."""

    states: int
    finding: Finding | None
    ends: frozenset[CallState | None]


START = State(None, (Worker(At.NEW), Worker(At.IDLE)), (), 0, "may ask", other=False)


def explore(protocol: Protocol) -> Outcome:
    """Visit every reachable state, breadth first, and answer the shortest way to a bad one."""
    came_from: dict[State, tuple[State, str] | None] = {START: None}
    queue = deque([START])
    ends: set[CallState | None] = set()
    while queue:
        state = queue.popleft()
        what = _wrong(state, protocol)
        if what is not None:
            return Outcome(len(came_from), Finding(what, _trace(state, came_from)), frozenset(ends))
        is_end = True
        for label, following in _steps(state, protocol):
            is_end = False
            if following not in came_from:
                came_from[following] = (state, label)
                queue.append(following)
        if is_end:
            ends.add(None if state.row is None else state.row.state)
    return Outcome(len(came_from), None, frozenset(ends))


def _trace(state: State, came_from: dict[State, tuple[State, str] | None]) -> tuple[str, ...]:
    steps = []
    while (step := came_from[state]) is not None:
        state, label = step
        steps.append(label)
    return tuple(reversed(steps))


def _effects(state: State, protocol: Protocol) -> int:
    landed = sum(request == "landed" for request in state.requests)
    return min(landed, 1) if protocol.server_removes_duplicates else landed


def _wrong(state: State, protocol: Protocol) -> str | None:
    effects = _effects(state, protocol) + (state.again == "landed")
    if effects > 1:
        return f"the effect was applied {effects} times"
    row = state.row
    if protocol.intent and row is None and state.requests:
        return "a request was sent that no ledger knows of"
    if row is not None and row.state is _S.SUCCEEDED and not _effects(state, protocol):
        return "the ledger says SUCCEEDED, but nothing of ours was applied"
    if row is not None and row.state in {_S.FAILED, _S.REJECTED} and _effects(state, protocol):
        return f"the ledger says {row.state}, but it was applied"
    return None


# The ledger


def _open(state: State, me: int, protocol: Protocol) -> State:
    worker = state.workers[me]._replace(at=At.SENDING, version=1, attempt=1)
    return _with(state._replace(row=Row(_S.STARTED, 1, 1, me)), me, worker)


def _move(state: State, me: int, target: CallState, then: At, attempt: int | None = None) -> State:
    """Compare and set; a stale worker stops and leaves a note."""
    worker, row = state.workers[me], state.row
    if row is None:  # the intent was never written
        return _with(state, me, worker._replace(at=then))
    if row.version != worker.version:
        return _with(state, me, worker._replace(at=At.DONE))
    attempt = worker.attempt if attempt is None else attempt
    refused = judge_move(Move("x", row.version, target, attempt, Event("e", 0.0, {})), row.state, row.attempt)
    assert refused is None, refused
    moved = Row(target, row.version + 1, attempt, me)
    return _with(state._replace(row=moved), me, worker._replace(at=then, version=moved.version, attempt=attempt))


def _liveness(owner: Worker, protocol: Protocol) -> Liveness:
    if owner.at is not At.DEAD:
        return Liveness.UNKNOWN if protocol.is_remote else Liveness.ALIVE
    return Liveness.UNKNOWN if protocol.is_remote else Liveness.DEAD


@dataclass(frozen=True)
class _Due:
    state: CallState
    attempt: int
    next_at: float | None
    lease_until: float | None


def _claim(state: State, me: int, protocol: Protocol) -> State | None:
    row = state.row
    if row is None or row.owner == me or state.claims >= _MOST_CLAIMS:
        return None
    owner = state.workers[row.owner]
    liveness = _liveness(owner, protocol)
    # A process that runs renews its lease; one that is paused or gone does not, and the lease lapses.
    lease_until = 10.0 if owner.at is not At.DEAD and not owner.is_paused else 0.0
    if not is_claimable(_Due(row.state, row.attempt, None, lease_until), liveness, 5.0):
        return None
    trusts = liveness is Liveness.DEAD or protocol.assume_dead or not protocol.proof
    claimed = row._replace(version=row.version + 1, owner=me)
    worker = Worker(
        At.UNCERTAIN, claimed.version, row.attempt, trusts, thread=state.workers[me].thread, doubts=row.attempt > 1
    )
    return _with(state._replace(row=claimed, claims=state.claims + 1), me, worker)


# The steps


def _with(state: State, me: int, worker: Worker) -> State:
    workers = (worker, state.workers[1]) if me == 0 else (state.workers[0], worker)
    return state._replace(workers=workers)


def _steps(state: State, protocol: Protocol) -> Iterator[tuple[str, State]]:
    yield from _world(state, protocol)
    yield from _ask_again(state, protocol)
    if protocol.person:
        yield from _person(state)
    for me in (0, 1):
        worker = state.workers[me]
        if worker.at is At.DEAD:
            continue
        name = f"worker {me + 1}"
        if worker.is_paused:
            yield f"{name} goes on", _with(state, me, worker._replace(is_paused=False))
            continue
        if worker.at not in {At.NEW, At.IDLE, At.DONE} or worker.thread:
            yield f"{name} is killed", _with(state, me, worker._replace(at=At.DEAD, thread=0))
        if worker.at in {At.SENDING, At.HAS_ANSWER, At.HAS_NOTHING, At.READ_NOTHING_AGAIN, At.SETTLING}:
            yield f"{name} is paused", _with(state, me, worker._replace(is_paused=True))
        if worker.thread:
            sent = _send(state, worker.thread)
            yield f"the abandoned function of {name} sends after all", _with(sent, me, worker._replace(thread=0))
        for label, following in _work(state, me, worker, protocol):
            yield f"{name} {label}", following


def _world(state: State, protocol: Protocol) -> Iterator[tuple[str, State]]:
    for index, request in enumerate(state.requests):
        if request in {"pending", "overdue"}:
            for became, label in (("landed", "lands"), ("lost", "is lost on the way")):
                yield f"request {index + 1} {label}", _became(state, index, became)
    if protocol.others and not state.other:
        yield "somebody else brings the same state about", state._replace(other=True)


def _became(state: State, index: int, what: str) -> State:
    return state._replace(requests=(*state.requests[:index], what, *state.requests[index + 1 :]))


def _send(state: State, attempt: int) -> State:
    requests = state.requests + ("none",) * (attempt - len(state.requests))
    return _became(state._replace(requests=requests), attempt - 1, "pending")


def _ask_again(state: State, protocol: Protocol) -> Iterator[tuple[str, State]]:
    """The model asks for the same thing again, with a new call id, while it has no answer of success."""
    row = state.row
    if state.again == "may ask" and state.workers[0].at is not At.NEW:
        is_open = row is not None and row.state in OPEN_STATES
        holder = Holder("x", row.state, "d") if row is not None and is_open and protocol.effect_key else None
        answer = judge_open(identity(2, digest="d", effect_key="e"), None, holder)
        if row is not None and row.state is _S.SUCCEEDED:
            return  # it would be replayed
        if not isinstance(answer, Blocked):
            yield "the model asks again; nothing blocks it and the request is sent", state._replace(again="sent")
    elif state.again == "sent":
        yield "the request of the second call lands", state._replace(again="landed")


def _work(state: State, me: int, worker: Worker, protocol: Protocol) -> Iterator[tuple[str, State]]:
    match worker.at:
        case At.NEW:
            if protocol.intent:
                yield "commits the intent", _open(state, me, protocol)
            else:
                yield "goes on without an intent", _with(state, me, worker._replace(at=At.SENDING, attempt=1))
        case At.SENDING:
            yield (
                f"sends request {worker.attempt}",
                _with(_send(state, worker.attempt), me, worker._replace(at=At.WAITING)),
            )
            gave_up = worker._replace(at=At.HAS_NOTHING, thread=worker.attempt)
            yield "gives up on its function before that has sent", _with(state, me, gave_up)
        case At.WAITING:
            yield from _wait(state, me, worker)
        case At.HAS_ANSWER:
            yield "records the success", _move(_late_intent(state, me, protocol), me, _S.SUCCEEDED, At.DONE)
        case At.HAS_REFUSAL if worker.doubts:
            yield "records that it does not know of an earlier request", _move(state, me, _S.UNCERTAIN, At.UNCERTAIN)
        case At.HAS_REFUSAL:
            yield from _retry(state, me, worker, "the refusal proves it")
            yield "records the failure", _move(state, me, _S.FAILED, At.DONE)
        case At.HAS_NOTHING:
            yield (
                "records that it does not know",
                _move(_late_intent(state, me, protocol), me, _S.UNCERTAIN, At.UNCERTAIN),
            )
        case At.UNCERTAIN:
            yield "begins to confirm", _move(state, me, _S.CONFIRMING, At.READING)
        case At.READING | At.READING_AGAIN:
            yield _read(state, me, worker, protocol)
        case At.READ_APPLIED:
            yield "records what it read: applied", _move(state, me, _S.SUCCEEDED, At.DONE)
        case At.READ_OTHER:
            target = _S.SUCCEEDED if protocol.accept_other else _S.PARKED
            yield f"records what it read: applied by somebody ({target})", _move(state, me, target, At.DONE)
        case At.READ_NOTHING:
            yield from _decide(state, me, worker, protocol)
        case At.SETTLING:
            yield from _settle(state, me, worker, protocol)
        case At.READ_NOTHING_AGAIN:
            yield from _retry(state, me, worker, "the window is over")
            if worker.attempt >= _MOST_ATTEMPTS:
                yield "records the failure: not applied", _move(state, me, _S.FAILED, At.DONE)
        case At.IDLE | At.DONE:
            claimed = _claim(state, me, protocol)
            if claimed is not None:
                yield "takes the call over", claimed
            yield from _look_again(state, me, worker)
        case At.SAW_EFFECT:
            yield "records what it saw of the parked call: applied", _move(state, me, _S.SUCCEEDED, At.DONE)


def _look_again(state: State, me: int, worker: Worker) -> Iterator[tuple[str, State]]:
    """A parked call is looked at without being touched; only the effect itself leads on."""
    row = state.row
    if row is not None and row.state is _S.PARKED and "landed" in state.requests:
        saw = worker._replace(at=At.SAW_EFFECT, version=row.version, attempt=row.attempt)
        yield "looks at the parked call again and sees its effect", _with(state, me, saw)


def _person(state: State) -> Iterator[tuple[str, State]]:
    """A person closes a parked call, once nothing that was sent can land any more, with what is true."""
    row = state.row
    if row is None or row.state is not _S.PARKED or state.again == "sent":
        return
    if any(request in {"pending", "overdue"} for request in state.requests) or any(one.thread for one in state.workers):
        return
    if any(one.at not in {At.DONE, At.IDLE, At.DEAD, At.SAW_EFFECT} for one in state.workers):
        return
    target = _S.SUCCEEDED if "landed" in state.requests else _S.FAILED
    refused = judge_move(Move("x", row.version, target, row.attempt, Event("e", 0.0, {})), row.state, row.attempt)
    assert refused is None, refused
    yield (
        f"a person resolves the call ({target})",
        state._replace(row=row._replace(state=target, version=row.version + 1)),
    )


def _late_intent(state: State, me: int, protocol: Protocol) -> State:
    """Without an intent, the first record of the call is written when the outcome is known."""
    if state.row is not None or protocol.intent:
        return state
    worker = state.workers[me]
    return _with(state._replace(row=Row(_S.STARTED, 1, 1, me)), me, worker._replace(version=1))


def _wait(state: State, me: int, worker: Worker) -> Iterator[tuple[str, State]]:
    index = worker.attempt - 1
    request = state.requests[index]
    if request == "landed":
        yield "hears the answer", _with(state, me, worker._replace(at=At.HAS_ANSWER))
    if request == "pending":
        refused = _became(state, index, "refused")
        yield "hears that it was refused", _with(refused, me, worker._replace(at=At.HAS_REFUSAL))
    yield "hears nothing in time", _with(state, me, worker._replace(at=At.HAS_NOTHING))


def _read(state: State, me: int, worker: Worker, protocol: Protocol) -> tuple[str, State]:
    if "landed" in state.requests:
        return "reads that it is applied", _with(state, me, worker._replace(at=At.READ_APPLIED))
    if state.other:
        return "reads the wanted state, author unknown", _with(state, me, worker._replace(at=At.READ_OTHER))
    then = At.READ_NOTHING if worker.at is At.READING else At.READ_NOTHING_AGAIN
    return "reads that it is not applied", _with(state, me, worker._replace(at=then))


def _decide(state: State, me: int, worker: Worker, protocol: Protocol) -> Iterator[tuple[str, State]]:
    """After "not applied": what licence is there to send again?"""
    if protocol.server_removes_duplicates or protocol.unlicensed:
        why = "the server removes duplicates" if protocol.server_removes_duplicates else "no licence"
        yield from _retry(_with(state, me, worker._replace(doubts=True)), me, worker, why)
        if worker.attempt >= _MOST_ATTEMPTS:
            yield "parks the call", _move(state, me, _S.PARKED, At.DONE)
    elif protocol.window and worker.trusts and not (worker.thread and protocol.watch_threads):
        then = At.SETTLING if protocol.settle else At.READ_NOTHING_AGAIN
        yield (
            "may send again after the window" if protocol.settle else "does not wait for the window",
            _with(state, me, worker._replace(at=then)),
        )
    else:
        yield "parks the call: no licence", _move(state, me, _S.PARKED, At.DONE)


def _settle(state: State, me: int, worker: Worker, protocol: Protocol) -> Iterator[tuple[str, State]]:
    is_over = "pending" not in state.requests
    if is_over or protocol.window_too_short:
        requests = tuple("overdue" if request == "pending" else request for request in state.requests)
        waited = state._replace(requests=requests)
        yield "has waited until the window is over", _with(waited, me, worker._replace(at=At.READING_AGAIN))


def _retry(state: State, me: int, worker: Worker, why: str) -> Iterator[tuple[str, State]]:
    if worker.attempt < _MOST_ATTEMPTS:
        attempt = worker.attempt + 1
        if state.row is None:
            again = state.workers[me]._replace(at=At.SENDING, attempt=attempt)
            yield f"tries again ({why})", _with(state, me, again)
        else:
            yield f"commits the intent of attempt {attempt} ({why})", _move(state, me, _S.STARTED, At.SENDING, attempt)


SAFEGUARDS = {
    "no intent commit": Protocol(intent=False),
    "no settle window": Protocol(settle=False),
    "no effect key": Protocol(effect_key=False),
    "no proof of death": Protocol(proof=False),
    "no watch over abandoned threads": Protocol(watch_threads=False),
}
RISKS = {
    "assume_dead_after": Protocol(is_remote=True, assume_dead=True),
    "a settle window that is too short": Protocol(window_too_short=True),
    "sending again without a licence": Protocol(unlicensed=True),
    "taking the wanted state for ours": Protocol(others=True, accept_other=True),
}
SAFE = {
    "a declared window": Protocol(),
    "no window declared": Protocol(window=False),
    "a server that removes duplicates": Protocol(server_removes_duplicates=True, window=False),
    "workers on different hosts": Protocol(is_remote=True),
    "others who bring about the same state": Protocol(others=True),
    "a person who resolves what is parked": Protocol(window=False, person=True),
}

assert all(not is_transition(state, target) for state in TERMINAL_STATES for target in CallState)


def main() -> None:
    for title, table in (("safe", SAFE), ("without a safeguard", SAFEGUARDS), ("with a risk accepted", RISKS)):
        print(f"# {title}")
        for name, protocol in table.items():
            outcome = explore(protocol)
            print(f"{name}: {outcome.states} states")
            if outcome.finding is not None:
                print(outcome.finding)


if __name__ == "__main__":
    main()
