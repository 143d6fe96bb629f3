"""Things of which there are only so many: places for running attempts, and accounts to act as."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

from fcguard.constraints.leases import Leases
from fcguard.constraints.options import check_count, check_seconds
from fcguard.constraints.state import MemoryState, SharedState, clock_of, is_blocking, state_key
from fcguard.errors import ConfigurationError, UsageError
from fcguard.model.attempt import Attempt
from fcguard.model.call import Call
from fcguard.model.call_info import current_call
from fcguard.model.failure import ErrorType, Violation

__all__ = ["Concurrency", "ResourcePool"]


class Concurrency:
    """Lets at most `limit` attempts run at once (a bulkhead), else `RESOURCE_EXHAUSTED`.

    A thread that was abandoned at its timeout still runs and still counts, until it ends. Nobody queues: recovery retries.

    Args:
        limit: most attempts at once.
        name: name for the evidence, and of the state.
        key: `(call) -> key` to count apart, e.g. by host; None: one count for the instance.
        state: where the count is kept; None: in this process.
        lease_seconds: with a shared state, when the place of a process that died is free again. While the attempt runs, however
            long, a thread renews it three times as often.
        wall: clock for times in a shared state, in seconds; None: the state's own, or this machine's if it has none.
    """

    def __init__(
        self,
        limit: int,
        *,
        name: str = "concurrency",
        key: Callable[[Call], Hashable] | None = None,
        state: SharedState | None = None,
        lease_seconds: float = 60.0,
        wall: Callable[[], float] | None = None,
    ) -> None:
        self.name, self.limit, self._key = name, check_count(name, "limit", limit), key
        self._places = tuple(map(str, range(limit)))
        self._leases = Leases(
            state or MemoryState(), check_seconds(name, "lease_seconds", lease_seconds), clock_of(state, wall)
        )
        self.is_blocking = is_blocking(state)

    def admit(self, call: Call, now: float) -> Violation | None:
        """Take a place, or refuse."""
        key = state_key("places", self.name, None if self._key is None else self._key(call))
        if self._leases.take(call, key, self._places, now) is not None:
            return None
        abandoned = self._leases.abandoned(key)
        why = f", {abandoned} of them abandoned at a timeout and still running" if abandoned else ""
        return Violation(
            ErrorType.RESOURCE_EXHAUSTED,
            f"{self.limit} calls run already ({self.name!r}){why}. Nothing was sent; try again when one has ended.",
        )

    def settle(self, call: Call, attempt: Attempt | None, now: float) -> None:
        """Give the place back, or leave it to the thread that still runs."""
        self._leases.settle(call, attempt)


class ResourcePool:
    """Leases one member of a pool, e.g. a test account, to each running attempt, else `ACCOUNT_POOL_EMPTY`.

    No member is ever leased to two attempts at once, also over processes that share a state. The lease ends with the attempt; if
    a thread was abandoned, when that ends. Calls of one task get the same member again if it is free. The tool asks
    `pool.leased()` which one it has.

    Args:
        name: name of the pool, for the evidence and the state.
        members: names of the members; or a mapping from the environment's `account_pool` to its members.
        state: where leases are kept; None: in this process.
        lease_seconds: with a shared state, when the member of a process that died is free again. While the attempt runs, however
            long, a thread renews it three times as often; a process that is stopped, or cannot reach the state, for longer
            than this may lose it to somebody else, and `leased()` says so once the state can be reached again.
        wall: clock for times in a shared state, in seconds; None: the state's own, or this machine's if it has none.

    Raises:
        ConfigurationError: no members, or one is there twice.
    """

    def __init__(
        self,
        name: str,
        members: Sequence[str] | Mapping[str, Sequence[str]],
        *,
        state: SharedState | None = None,
        lease_seconds: float = 60.0,
        wall: Callable[[], float] | None = None,
    ) -> None:
        self.name = name
        by_pool = members if isinstance(members, Mapping) else {None: members}
        self._members: dict[str | None, tuple[str, ...]] = {}
        owner: dict[str, str | None] = {}
        for pool, names in by_pool.items():
            if (
                isinstance(names, str)
                or not names
                or any(not isinstance(member, str) or not member for member in names)
            ):
                raise ConfigurationError(
                    f"ResourcePool({name!r}): give the names of the members as a list of texts; got {names!r}"
                )
            for member in names:
                if member in owner:
                    raise ConfigurationError(
                        f"ResourcePool({name!r}): {member!r} is there twice; each member belongs to one pool"
                    )
                owner[member] = pool
            self._members[pool] = tuple(names)
        self._is_mapping = isinstance(members, Mapping)
        self._leases = Leases(
            state or MemoryState(), check_seconds(name, "lease_seconds", lease_seconds), clock_of(state, wall)
        )
        self.is_blocking = is_blocking(state)

    def admit(self, call: Call, now: float) -> Violation | None:
        """Lease a member, or refuse."""
        environment = call.context.environment
        pool = environment.account_pool if self._is_mapping and environment is not None else None
        members = self._members.get(pool)
        if members is None:
            known = ", ".join(sorted(map(repr, self._members)))
            return Violation(
                ErrorType.ACCOUNT_POOL_EMPTY,
                f"The environment names the account pool {pool!r}, which {self.name!r} does not know (it knows {known}).",
            )
        memory = None if call.task is None else call.task.memory
        last = None if memory is None else memory.get(self)
        member = self._leases.take(
            call, state_key("pool", self.name, pool), members, now, last if last in members else None
        )
        if member is None:
            return Violation(
                ErrorType.ACCOUNT_POOL_EMPTY,
                f"All {len(members)} members of {self.name!r} are leased. Nothing was sent; wait until one is given back.",
            )
        if memory is not None:
            memory[self] = member
        return None

    def settle(self, call: Call, attempt: Attempt | None, now: float) -> None:
        """Give the member back, or leave it to the thread that still runs."""
        self._leases.settle(call, attempt)

    def leased(self, request_id: str | None = None) -> str:
        """Answer the member that is leased to a running call.

        Args:
            request_id: which call; None: the one that this code runs in.

        Raises:
            UsageError: the call has no lease of this pool, or it could not be renewed in time and somebody else has it now.
        """
        asked = current_call().request_id if request_id is None else request_id
        member = self._leases.held_by(asked)
        if member is None and self._leases.has_lost(asked):
            raise UsageError(
                f"call {asked!r} lost its lease of {self.name!r}, which could not be renewed in time: another call acts as that "
                "member now, so stop"
            )
        if member is None:
            raise UsageError(f"call {asked!r} has no lease of {self.name!r}; give its tool constraints=[the pool]")
        return member
