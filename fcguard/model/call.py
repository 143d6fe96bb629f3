"""The one value that flows through the eight steps: a governed call."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar

from fcguard.model.attempt import Attempt
from fcguard.model.context import TaskContext
from fcguard.model.evidence import Evidence
from fcguard.model.failure import EffectState, Failure
from fcguard.model.frozen import FrozenDict
from fcguard.model.intent import Intent
from fcguard.model.result import OutcomeBasis, ToolResult
from fcguard.model.secrets import PLAIN_REDACTOR, Redactor
from fcguard.model.tool import Tool

__all__ = ["UNFILLED", "Call", "Purpose"]

Purpose = Literal["primary", "confirm", "fallback"]


T = TypeVar("T")


class _Unfilled:
    """What stands in a slot that no step has filled yet."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "UNFILLED"


UNFILLED: Final[Any] = _Unfilled()

if TYPE_CHECKING:

    class Once(Generic[T]):
        """What a type checker sees: a slot of one type."""

        def __init__(self, name: str) -> None: ...
        def __get__(self, instance: Any, owner: Any = None) -> T: ...
        def __set__(self, instance: Any, value: T) -> None: ...

else:

    class Once:
        """A slot that a step fills once; until then it is `UNFILLED`.

        It is a property over a plain slot, so that reading it costs no Python call.
        """

        def __class_getitem__(cls, _: Any) -> Any:
            return cls

        def __new__(cls, name: str) -> property:
            slot = "_" + name

            read = attrgetter(slot)

            def fill(self: Any, value: Any) -> None:
                if read(self) is not UNFILLED:
                    raise RuntimeError(f"the slot {name!r} of a call is filled once; it was filled already")
                setattr(self, slot, value)

            return property(read, fill, doc=f"The {name} of the call, filled once.")


class Call:
    """A governed call on its way through the eight steps.

    The products of the steps are slots that are filled once: `context`, `intent`, `arguments` (frozen), `verdict`,
    `result`, `recovery`, `record`; `attempts` only grows. Everything else is bookkeeping of the pipeline.

    Attributes:
        request_id: the one id of the call.
        tool: the resolved tool; None until known.
        purpose: `primary`, `confirm` or `fallback`.
        parent: the call that caused this one.
        failure: the failure that stands now; None while all is well.
        is_in_doubt: the ledger was asked to open the call, and did not say whether it did.
        is_delegated: a write was handed to a fallback, and that one may have done it.
        is_recorded: the ledger has answered to the end of a call that it had opened.
        is_resumed: built from the ledger, to be brought to its end.
        unsendable: why it must not be sent again from here, though it may be confirmed; None: nothing speaks against it.
        readings: what is wrong with each read that its latest confirmation made; empty words where nothing is.
        due_at: wall clock at which it is to be taken up again; None: it is not put off.
        numbers: the how-manieth call it is in each task that bounds it; empty where none does, or it does not count.
    """

    context = Once[TaskContext]("context")
    intent = Once[Intent]("intent")
    arguments = Once[FrozenDict]("arguments")
    verdict = Once[Any]("verdict")
    result = Once[ToolResult[Any]]("result")
    _context = _intent = _arguments = _verdict = _result = UNFILLED

    # Defaults stand on the class: a call is made for every invocation, and most never set the greater part of them.
    started_at = started = 0.0
    tool: Tool | None = None
    prepared: Any = None
    normalized: Any = None
    task: Any = None
    step: int | None = None
    turn: str | None = None
    nested: int | None = None
    receiver: Any = None
    redactor: Redactor = PLAIN_REDACTOR
    deadline: float | None = None
    idempotency_key: str | None = None
    effect_key: str | None = None
    ledger_version: int | None = None
    ledger_attempt = 0
    ledger_state: Any = None
    blocked_by: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    observed: Any = None
    halt: Any = None
    failure: Failure | None = None
    data: Any = None
    returned: Any = None
    basis: OutcomeBasis | None = None
    effect: EffectState = "none"
    message = ""
    evidence: tuple[Evidence, ...] = ()
    flags: tuple[str, ...] = ()
    confirmations: tuple[Any, ...] = ()
    children: tuple[str, ...] = ()
    admitted: tuple[Any, ...] = ()
    answered_by: str | None = None
    pause = 0.0
    was_interrupted = False
    waits = 0
    is_in_doubt = False
    is_delegated = False
    is_recorded = False
    is_resumed = False
    unsendable: str | None = None
    readings: tuple[str, ...] = ()
    due_at: float | None = None
    numbers: Mapping[Any, int] = MappingProxyType({})

    def __init__(
        self, request_id: str, proposal: Intent, purpose: Purpose, parent: Call | None, given: TaskContext | None
    ) -> None:
        self.request_id, self.proposal, self.purpose = request_id, proposal, purpose
        self.parent, self.given = parent, given
        self.attempts: list[Attempt] = []

    def reopen(self, *slots: str) -> None:
        """Empty slots so that their steps can run again in another environment."""
        for slot in slots:
            setattr(self, "_" + slot, UNFILLED)

    def take_result(self) -> ToolResult[Any]:
        """Answer the envelope and let go of it: a ledger that keeps the call must not keep the tool's objects alive."""
        result = self.result
        self._result = UNFILLED
        return result

    def attach(self, evidence: Evidence) -> None:
        """Add a reference to something that was kept."""
        self.evidence = (*self.evidence, evidence)

    def flag(self, word: str) -> None:
        """Mark something that a caller may want to know."""
        if word not in self.flags:
            self.flags = (*self.flags, word)

    def __repr__(self) -> str:
        name = self.tool.name if self.tool is not None else self.proposal.tool
        return f"<Call {self.request_id} {name!r} {self.purpose} attempts={len(self.attempts)}>"


def _lay_out(call: Call) -> None:
    """Set all that a plain call sets.

    CPython gives the instances of a class a common layout of at most 30 attributes, as the first instances set them. An
    attribute that the first calls of a process do not have (a span, say) would cost every later call that has it a twentieth
    of its time.
    """
    call.started_at, call.started, call.task, call.step = 0.0, 0.0, None, None
    call.prepared, call.tool, call.redactor, call.receiver = None, None, PLAIN_REDACTOR, None
    call.observed, call.trace_id, call.span_id = None, None, None
    call.normalized, call.data, call.returned, call.basis, call.effect = None, None, None, None, "none"
    call.halt, call.failure = None, None
    call.reopen("context", "intent", "arguments", "verdict", "result")


_lay_out(Call("", Intent(), "primary", None, None))
