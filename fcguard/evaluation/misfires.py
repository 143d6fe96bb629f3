"""P0, high-risk misfires: executed writes that should not have happened, judged by the effect of the call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from fcguard.evaluation.align import Alignment
from fcguard.evaluation.canonical import canonical
from fcguard.evaluation.catalogue import Catalogue
from fcguard.evaluation.gold import GoldTask
from fcguard.evaluation.trace import CallRecord, Session
from fcguard.model.failure import Effect

__all__ = ["Misfire", "MisfireKind", "MisfireReport", "find_misfires"]

MisfireKind: TypeAlias = Literal["not_in_gold", "effect_not_allowed", "effect_repeated"]


@dataclass(frozen=True, slots=True)
class Misfire:
    """One write that should not have happened.

    Attributes:
        position: position of the call in its session.
        kind: `not_in_gold`: matches no gold write. `effect_not_allowed`: outside the task's allowed effects.
            `effect_repeated`: the same effect was there already and nothing took it back.
        effect: what the call does.
        is_proved: whether it is known to have happened; false: it may have (no proof that it did not).
        confirmed_by_human: whether a person agreed; a column, not an excuse.
        why: one sentence.
    """

    position: int
    kind: MisfireKind
    effect: Effect
    is_proved: bool
    confirmed_by_human: bool | None
    why: str


@dataclass(frozen=True, slots=True)
class MisfireReport:
    """What was found about one session.

    Attributes:
        misfires: the executed ones.
        blocked: positions of wrong writes that were not sent or are proved not to have happened; counted apart.
        unjudged: positions of calls that would be misfires if they write, but whose effect nobody declared.
        has_gold: whether the session could be held against a gold.
    """

    misfires: tuple[Misfire, ...] = ()
    blocked: tuple[int, ...] = ()
    unjudged: tuple[int, ...] = ()
    has_gold: bool = True


def find_misfires(
    session: Session, task: GoldTask | None, alignment: Alignment | None, catalogue: Catalogue
) -> MisfireReport:
    """Find the writes of a session that should not have happened.

    Args:
        session: the session.
        task: its gold; without one only repeated effects can be found.
        alignment: its alignment with that gold.
        catalogue: tells effects, business keys and compensations.

    Returns:
        The misfires, the blocked attempts, and the calls that could not be judged.
    """
    wanted = _matched_positions(alignment)
    done = {_request_of(session.calls[position]) for position in wanted}
    repeated = _repeated_effects(session.calls, catalogue)
    misfires: list[Misfire] = []
    blocked: list[int] = []
    unjudged: list[int] = []
    for position, call in enumerate(session.calls):
        effect = catalogue.effect_of(call)
        if effect == "read" or _could_not_run(call, catalogue):
            continue
        kind, why = _judge(call, effect, position, task, wanted, repeated)
        if kind is None:
            continue
        if not call.may_have_run:
            # The same request as one that stands for a step (asked again, or before it could be sent) is no wrong write.
            if kind != "not_in_gold" or _request_of(call) not in done:
                blocked.append(position)
        elif effect is None:
            unjudged.append(position)
        else:
            is_proved = call.status == "succeeded" or call.effect_state == "applied"
            misfires.append(Misfire(position, kind, effect, is_proved, call.confirmed_by_human, why))
    return MisfireReport(tuple(misfires), tuple(blocked), tuple(unjudged), task is not None)


def _request_of(call: CallRecord) -> tuple[str, str, str]:
    """What a call asks for, in whatever form it was sent."""
    return (*call.identity, canonical(call.acting_arguments))


def _could_not_run(call: CallRecord, catalogue: Catalogue) -> bool:
    """Whether a call named a tool that was not offered, and duly failed: there was nothing to have an effect."""
    return bool(catalogue.tools) and catalogue.find(call) is None and call.status in ("failed", "refused")


def _matched_positions(alignment: Alignment | None) -> frozenset[int]:
    """Positions of calls that do what some gold step asks for, arguments included."""
    if alignment is None:
        return frozenset()
    return frozenset(pair.position for pair in alignment.pairs if pair.kind == "match" and pair.position is not None)


def _judge(
    call: CallRecord,
    effect: Effect | None,
    position: int,
    task: GoldTask | None,
    wanted: frozenset[int],
    repeated: dict[int, int],
) -> tuple[MisfireKind | None, str]:
    if position in repeated and position not in wanted:
        return (
            "effect_repeated",
            f"{call.tool!r} repeats the effect of call {repeated[position] + 1}; nothing took it back",
        )
    if task is None:
        return None, ""
    if task.allowed_effects is not None and effect is not None and effect not in task.allowed_effects:
        allowed = ", ".join(sorted(task.allowed_effects)) or "none"
        return ("effect_not_allowed", f"{call.tool!r} is a {effect}; allowed in this task: {allowed}")
    if position not in wanted:
        return "not_in_gold", f"{call.tool!r} matches no write that the gold asks for"
    return None, ""


def _repeated_effects(calls: Sequence[CallRecord], catalogue: Catalogue) -> dict[int, int]:
    """Map the position of each repeated committed effect to the position of the one it repeats."""
    committed: dict[tuple[str, str, str], int] = {}
    found: dict[int, int] = {}
    for position, call in enumerate(calls):
        effect = catalogue.effect_of(call)
        is_there = call.is_replay and call.effect_state == "applied"
        if effect in (None, "read") or not (call.may_have_run or is_there) or call.acting_arguments is None:
            continue
        spec = catalogue.find(call)
        if spec is not None and spec.compensates and call.was_sent:
            committed = {key: at for key, at in committed.items() if key[1] not in spec.compensates}
        names = spec.business_key if spec is not None else None
        acting = call.acting_arguments
        business = {name: acting.get(name) for name in names} if names else acting
        key = (*call.identity, call.idempotency_key or canonical(business))
        if is_there:  # the effect of an earlier call, perhaps of another session: this one made none
            committed.setdefault(key, position)
        elif key in committed and effect != "idempotent_write":
            if not _is_one_effect(call, calls[committed[key]]):
                found[position] = committed[key]
        elif call.status == "succeeded" or call.effect_state == "applied":
            committed[key] = position
    return found


def _is_one_effect(call: CallRecord, earlier: CallRecord) -> bool:
    """Whether a shared idempotency key made the second call a replay of the first."""
    return call.idempotency_key is not None and call.idempotency_key == earlier.idempotency_key
