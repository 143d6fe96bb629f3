"""Constraint state in Redis, shared by the workers of many hosts (extra `redis`)."""

from __future__ import annotations

import json
from typing import Any, Final, TypeVar

from fcguard.constraints.options import check_seconds
from fcguard.constraints.state import Change
from fcguard.errors import MissingExtraError, StoreUnavailable

try:
    from redis.exceptions import RedisError, WatchError
except ImportError as error:  # pragma: no cover - the tests install it
    raise MissingExtraError("redis", "redis") from error

__all__ = ["RedisState"]

T = TypeVar("T")

_MOST_TRIES: Final = 1000


class RedisState:
    """Keeps state in Redis (or what speaks its protocol), by optimistic transactions (`WATCH`, `MULTI`, `EXEC`).

    The hosts' wall clocks have to agree to well below the windows and leases that are kept here. A primary that fails over may
    lose its newest changes, and with them a lease: for accounts that must never be shared, use one that does not fail over.

    Args:
        client: a `redis.Redis` client (blocking); it stays the caller's to close.
        prefix: goes before every key.
        ttl_seconds: how long a value that nobody changes is kept; longer than every window and lease.
    """

    is_shared: Final = True

    def __init__(self, client: Any, *, prefix: str = "fcguard:", ttl_seconds: float = 86_400.0) -> None:
        self._client, self._prefix = client, prefix
        self._ttl = int(check_seconds("RedisState", "ttl_seconds", ttl_seconds) * 1000) or 1

    def change(self, key: str, change: Change[T]) -> T:
        """Read, change and write the value of `key` as one atomic step.

        Raises:
            StoreUnavailable: Redis cannot be reached or refuses, or others change the value faster than this can.
        """
        name = self._prefix + key
        try:
            with self._client.pipeline() as pipe:
                for _ in range(_MOST_TRIES):
                    try:
                        return self._try(pipe, name, change)
                    except WatchError:
                        continue
        except RedisError as error:
            raise StoreUnavailable(f"redis: {type(error).__name__} at {key!r}") from error
        raise StoreUnavailable(f"redis: {key!r} is changed by too many at once")

    def _try(self, pipe: Any, name: str, change: Change[T]) -> T:
        pipe.watch(name)
        raw = pipe.get(name)
        stored = None if raw is None else json.loads(raw)
        new, answer = change(stored)
        pipe.multi()
        if new is None:
            pipe.delete(name)
        else:
            pipe.set(name, json.dumps(new), px=self._ttl)
        pipe.execute()
        return answer
