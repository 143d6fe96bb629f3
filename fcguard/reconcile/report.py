"""What a recovery found and did, for programs and for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from fcguard.model.states import CallState
from fcguard.stores.recoverable import Drained

__all__ = ["Deed", "Recovered", "Recovery"]

Deed = Literal[
    "confirmed", "late", "returned", "failed", "rejected", "deferred", "parked", "taken_over", "unrecorded", "left_open",
    "not_mine", "waits",
]  # fmt: skip
"""What was done with a call.

confirmed: its effect was found · late: what it returned after all was in the ledger · returned: it was sent again and
answered · failed: proved not applied, or refused · rejected: it was never sent · deferred: its settle window is not over ·
parked: a person must decide · taken_over: another worker has it · unrecorded: the ledger did not take the outcome (spooled)
· left_open: its tool is here, but it cannot be acted on · not_mine: no tool of that name is registered here, another service may
have it · waits: nothing was done, it waits for a person.
"""

_WORDS: Final[Mapping[Deed, str]] = {
    "confirmed": "confirmed",
    "late": "returned late",
    "returned": "sent again",
    "failed": "failed",
    "rejected": "rejected",
    "deferred": "deferred",
    "parked": "parked",
    "taken_over": "taken over by another worker",
    "unrecorded": "not recorded yet",
    "left_open": "left open",
    "not_mine": "not mine",
    "waits": "waiting for a person",
}
_NEEDS_SOMEBODY: Final = frozenset({"parked", "left_open", "waits", "unrecorded"})


@dataclass(frozen=True, slots=True)
class Recovered:
    """One open call: how it was found, and what was done.

    Attributes:
        request_id, tool, task_id: which call.
        found: state in which it was found.
        owner: what is known of the process that had it (`self`, `alive`, `dead`, `unknown`).
        did: what was done.
        state: state it is in now.
        attempts: how often it was sent, over all processes.
        message: why, in words; no secrets.
        due_at: wall clock in seconds when it can be taken up again; None: nothing is due.
    """

    request_id: str
    tool: str
    task_id: str
    found: CallState
    owner: str
    did: Deed
    state: CallState
    attempts: int = 0
    message: str = ""
    due_at: float | None = None

    def __str__(self) -> str:
        why = f": {self.message}" if self.message else ""
        return f"{self.request_id}  {self.tool}  {self.found} (owner {self.owner}) -> {self.state}, {_WORDS[self.did]}{why}"


@dataclass(frozen=True, slots=True)
class Recovery:
    """What `guard.recover()` found and did. `print(recovery)` shows it.

    Attributes:
        calls: the open calls that were looked at, oldest first; those that another living process works on are only counted.
        busy: open calls that another worker holds.
        drained: what became of outcomes that had been spooled.
    """

    calls: tuple[Recovered, ...] = ()
    busy: int = 0
    drained: Drained = field(default_factory=Drained)

    @property
    def totals(self) -> dict[Deed, int]:
        """How many calls each thing was done with."""
        return dict(Counter(call.did for call in self.calls))

    @property
    def unresolved(self) -> tuple[Recovered, ...]:
        """Calls that need somebody: a person to resolve them, or another version of this guard's tool."""
        return tuple(call for call in self.calls if call.did in _NEEDS_SOMEBODY)

    @property
    def not_mine(self) -> tuple[Recovered, ...]:
        """Calls of tools that this guard does not have. They were left alone for the service that has them."""
        return tuple(call for call in self.calls if call.did == "not_mine")

    def to_json(self) -> dict[str, Any]:
        """Answer the report as JSON values."""
        return {
            "calls": [asdict(call) for call in self.calls],
            "totals": self.totals,
            "busy": self.busy,
            "drained": {**asdict(self.drained), "failed": dict(self.drained.failed)},
        }

    def __str__(self) -> str:
        lines = [str(call) for call in self.calls]
        drained = self.drained
        if drained.applied or drained.noted or drained.failed:
            lines.append(
                f"spool: {drained.applied} written, {drained.noted} noted, {drained.known} known, {len(drained.failed)} failed"
            )
        counts = ", ".join(f"{count} {_WORDS[did]}" for did, count in sorted(self.totals.items()))
        busy = f"; {self.busy} held by a living worker" if self.busy else ""
        lines.append(f"open calls: {len(self.calls)}" + (f" ({counts})" if counts else "") + busy)
        return "\n".join(lines)
