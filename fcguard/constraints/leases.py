"""Leases of members of a pool: taken by one call, given back when its attempt ends, lapsing if its process dies."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from fcguard.constraints.state import SharedState, new_lock
from fcguard.model.call import Attempt, Call, Late

__all__ = ["Leases"]

_NEVER: Final = float("inf")


class Leases:
    """Which member is leased to which call.

    A lease of an attempt that was abandoned is held until its thread ends. In memory a lease never lapses; in a shared state it
    lapses after `seconds`, or twice the tool's timeout if that is longer, since its process may be gone.

    Args:
        state: where leases are kept.
        seconds: shortest time until a shared lease lapses.
        wall: wall clock in seconds, used with a shared state.
    """

    def __init__(self, state: SharedState, seconds: float, wall: Callable[[], float]) -> None:
        self._state, self._seconds, self._wall = state, seconds, wall
        self._lock = new_lock()
        self._held: dict[str, tuple[str, str]] = {}
        self._abandoned: list[tuple[Late, str, str, str]] = []

    def take(
        self, call: Call, key: str, members: Iterable[str], now: float, preferred: str | None = None
    ) -> str | None:
        """Lease a free member to the call.

        Args:
            call: who gets it.
            key: which pool.
            members: members of the pool, in the order in which they are given out.
            now: monotonic seconds.
            preferred: member to take if it is free.

        Returns:
            The member; None if all are leased.
        """
        self._free_ended()
        is_shared = self._state.is_shared
        at, until = now, _NEVER
        if is_shared:
            at = self._wall()
            until = at + max(self._seconds, 2 * (call.tool.timeout or 0.0) if call.tool is not None else 0.0)
        entry = [call.request_id, until]

        def lease(stored: dict[str, list[Any]] | None) -> tuple[dict[str, list[Any]] | None, str | None]:
            if not stored:
                leased = {}
            elif is_shared:
                leased = {member: held for member, held in stored.items() if held[1] > at}
            else:
                leased = stored.copy()
            member = preferred
            if member is None or member in leased:
                for member in members:
                    if member not in leased:
                        break
                else:
                    return leased or None, None
            leased[member] = entry
            return leased, member

        member = self._state.change(key, lease)
        if member is not None:
            self._held[call.request_id] = key, member
        return member

    def settle(self, call: Call, attempt: Attempt | None) -> None:
        """Give the call's member back, or hold it while its abandoned thread runs."""
        held = self._held.pop(call.request_id, None)
        if held is None:
            return
        late = None if attempt is None else attempt.late
        if late is not None and late.is_running:
            with self._lock:
                self._abandoned.append((late, *held, call.request_id))
        else:
            self._release(*held, call.request_id)

    def held_by(self, request_id: str) -> str | None:
        """Answer the member that is leased to a call of this process; None if none is."""
        held = self._held.get(request_id)
        return None if held is None else held[1]

    def abandoned(self, key: str) -> int:
        """Answer how many members are held by threads of this process that nobody waits for any more."""
        return sum(held == key for _, held, _, _ in self._abandoned)

    def _free_ended(self) -> None:
        if not self._abandoned:
            return
        # Asked rather than told: the one listener of a late result belongs to the ledger.
        with self._lock:
            ended = [row for row in self._abandoned if not row[0].is_running]
            self._abandoned = [row for row in self._abandoned if row[0].is_running]
            running = list(self._abandoned)
        for _, key, member, holder in ended:
            self._release(key, member, holder)
        if self._state.is_shared:
            for _, key, member, holder in running:
                self._extend(key, member, holder)

    def _release(self, key: str, member: str, holder: str) -> None:
        def free(stored: dict[str, list[Any]] | None) -> tuple[dict[str, list[Any]] | None, None]:
            held = None if stored is None else stored.get(member)
            if stored is None or held is None or held[0] != holder:
                return stored, None  # it lapsed, and may belong to somebody else by now
            left = stored.copy()
            del left[member]
            return left or None, None

        self._state.change(key, free)

    def _extend(self, key: str, member: str, holder: str) -> None:
        until = self._wall() + self._seconds

        def extend(stored: dict[str, list[Any]] | None) -> tuple[dict[str, list[Any]] | None, None]:
            held = (stored or {}).get(member)
            if held is None or held[0] != holder or held[1] >= until:
                return stored, None
            return {**(stored or {}), member: [holder, until]}, None

        self._state.change(key, extend)
