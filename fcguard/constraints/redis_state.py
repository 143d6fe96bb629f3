"""Constraint state in Redis, shared by the workers of many hosts (extra `redis`)."""

from __future__ import annotations

from time import monotonic
from typing import Any, Final, TypeVar

from fcguard.constraints.options import check_seconds
from fcguard.constraints.server_clock import ServerClock
from fcguard.constraints.state import Change, change_text
from fcguard.errors import MissingExtraError, StoreUnavailable

try:
    from redis.exceptions import RedisError
except ImportError as error:  # pragma: no cover - the tests install it
    raise MissingExtraError("redis", "redis") from error

__all__ = ["RedisState"]

T = TypeVar("T")

_MOST_TRIES: Final = 1000
_SWAP: Final = """
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
if ARGV[2] == '' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return 1
"""
"""Writes a text if the one that was read is still there; the empty text, which is no JSON, stands for none."""


class RedisState:
    """Keeps state in Redis (or what speaks its protocol), by comparing and swapping (a script; `GET`, `EVALSHA` and `TIME`).

    A change that changes nothing costs one round trip, others two, and again two if somebody else was faster.

    Times are those of the server, which is asked every minute, so the clocks of the hosts do not matter. A primary that fails over
    may lose its newest changes, and with them a lease: for accounts that must never be shared, use one that does not fail over.

    Args:
        client: a `redis.Redis` client (blocking); it stays the caller's to close.
        prefix: goes before every key.
        ttl_seconds: how long a value that nobody changes is kept; longer than every window and lease.
    """

    is_shared: Final = True

    def __init__(self, client: Any, *, prefix: str = "fcguard:", ttl_seconds: float = 86_400.0) -> None:
        self._client, self._prefix, self._swap = client, prefix, client.register_script(_SWAP)
        self._clock = ServerClock(self._ask_time)
        self._ttl = int(check_seconds("RedisState", "ttl_seconds", ttl_seconds) * 1000) or 1

    def now(self) -> float:
        """Answer the server's seconds since the epoch.

        Raises:
            StoreUnavailable: Redis cannot be reached or refuses.
        """
        return self._clock.now()

    def _ask_time(self) -> tuple[float, float]:
        began = monotonic()
        try:
            seconds, microseconds = self._client.time()
        except RedisError as error:
            raise StoreUnavailable(f"redis: {type(error).__name__} at TIME") from error
        return seconds + microseconds / 1e6, (began + monotonic()) / 2

    def change(self, key: str, change: Change[T]) -> T:
        """Read, change and write the value of `key` as one atomic step.

        Raises:
            StoreUnavailable: Redis cannot be reached or refuses, or others change the value faster than this can.
        """
        name = self._prefix + key
        try:
            for _ in range(_MOST_TRIES):
                stored = self._client.get(name)
                text, answer = change_text(stored, change)
                if text is stored or self._swap(keys=[name], args=[stored or "", text or "", self._ttl]):
                    return answer
        except RedisError as error:
            raise StoreUnavailable(f"redis: {type(error).__name__} at {key!r}") from error
        raise StoreUnavailable(f"redis: {key!r} is changed by too many at once")
