"""Leases of members of a pool: taken by one call, renewed while it runs, given back at its end, lapsing if its process dies."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, Final

from fcguard.constraints.heartbeat import Heartbeat
from fcguard.constraints.state import SharedState, new_lock
from fcguard.model.attempt import Attempt, Late
from fcguard.model.call import Call

__all__ = ["Leases"]

_NEVER: Final = float("inf")
_RENEWALS: Final = 3
"""How often a lease is renewed in the time in which it would lapse."""

Stored = dict[str, list[Any]] | None


class Leases:
    """Which member is leased to which call.

    A lease of an attempt that was abandoned is held until its thread ends. In memory a lease never lapses; in a shared state it
    lapses `seconds` after its process renewed it for the last time, which a thread does three times as often.

    Args:
        state: where leases are kept.
        seconds: time until a shared lease lapses that nobody renews.
        wall: clock in seconds for times in a shared state.
    """

    def __init__(self, state: SharedState, seconds: float, wall: Callable[[], float]) -> None:
        self._state, self._seconds, self._wall = state, seconds, wall
        self._lock, self._pid = new_lock(), os.getpid()
        self._held: dict[str, tuple[str, str]] = {}
        self._abandoned: list[tuple[Late, str, str, str]] = []
        self._lost: set[str] = set()
        self._heart = Heartbeat(self.renew, self._holds_any, seconds / _RENEWALS, "fcguard-leases")

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

        Raises:
            StoreUnavailable: the state cannot be reached.
            RuntimeError: the machine has no thread to renew the lease with; it was given back.
        """
        is_shared = self._state.is_shared
        at, until = now, _NEVER
        if is_shared:
            if self._pid != os.getpid():
                self._after_fork()
            at = self._wall()
            until = at + self._seconds
        if self._abandoned:
            self._free_ended()
        entry = [call.request_id, until]

        def lease(stored: Stored) -> tuple[Stored, str | None]:
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
                    return stored, None
            leased[member] = entry
            return leased, member

        member = self._state.change(key, lease)
        if member is not None:
            self._held[call.request_id] = key, member
            if is_shared:
                self._renew_from_now(call)
        return member

    def settle(self, call: Call, attempt: Attempt | None) -> None:
        """Give the call's member back, or hold it while its abandoned thread runs."""
        held = self._held.get(call.request_id)
        if held is None:
            return
        late = None if attempt is None else attempt.late
        if late is not None and late.is_running:
            with self._lock:
                self._abandoned.append((late, *held, call.request_id))
            # Only now: the heartbeat must not find the lease in neither place.
            del self._held[call.request_id]
        else:
            del self._held[call.request_id]
            self._release(*held, call.request_id)
        if self._lost:
            self._lost.discard(call.request_id)

    def held_by(self, request_id: str) -> str | None:
        """Answer the member that is leased to a call of this process; None if none is, or somebody else got it meanwhile."""
        held = self._held.get(request_id)
        return None if held is None or request_id in self._lost else held[1]

    def has_lost(self, request_id: str) -> bool:
        """Answer whether a running call's lease lapsed, because it could not be renewed in time, and somebody else got it."""
        return request_id in self._lost

    def abandoned(self, key: str) -> int:
        """Answer how many members are held by threads of this process that nobody waits for any more."""
        return sum(held == key for _, held, _, _ in self._abandoned)

    def renew(self) -> None:
        """Renew every shared lease that a call or an abandoned thread of this process holds, and free those that ended."""
        self._free_ended()
        pools: dict[str, dict[str, str]] = {}
        for holder, (key, member) in list(self._held.items()):
            pools.setdefault(key, {})[member] = holder
        for _, key, member, holder in list(self._abandoned):
            pools.setdefault(key, {})[member] = holder
        for key, members in pools.items():
            self._lost.update(holder for holder in self._extend(key, members) if holder in self._held)

    def _renew_from_now(self, call: Call) -> None:
        try:
            self._heart.start()
        except BaseException:  # a lease that nobody renews could be given to somebody else while the call runs
            self.settle(call, None)
            raise

    def _extend(self, key: str, members: dict[str, str]) -> list[str]:
        until = self._wall() + self._seconds

        def extend(stored: Stored) -> tuple[Stored, list[str]]:
            leased, lost = dict(stored or {}), []
            for member, holder in members.items():
                held = leased.get(member)
                if held is None:
                    # It lapsed and nobody has taken it yet; if it was given back a moment ago, it stays given back.
                    if holder in self._held or any(row[3] == holder for row in self._abandoned):
                        leased[member] = [holder, until]
                elif held[0] == holder:
                    leased[member] = [holder, max(until, held[1])]
                else:
                    lost.append(holder)
            return leased or None, lost

        return self._state.change(key, extend)

    def _free_ended(self) -> None:
        # Asked rather than told: the one listener of a late result belongs to the ledger.
        with self._lock:
            ended = [row for row in self._abandoned if not row[0].is_running]
            self._abandoned = [row for row in self._abandoned if row[0].is_running]
        for _, key, member, holder in ended:
            self._release(key, member, holder)

    def _release(self, key: str, member: str, holder: str) -> None:
        def free(stored: Stored) -> tuple[Stored, None]:
            held = None if stored is None else stored.get(member)
            if stored is None or held is None or held[0] != holder:
                return stored, None  # it lapsed, and may belong to somebody else by now
            left = stored.copy()
            del left[member]
            return left or None, None

        self._state.change(key, free)

    def _holds_any(self) -> bool:
        return bool(self._held or self._abandoned)

    def _after_fork(self) -> None:
        # What the parent holds is the parent's to renew; a child that did so would hold it for ever.
        self._lock, self._pid = new_lock(), os.getpid()
        self._held, self._abandoned, self._lost = {}, [], set()
