"""The places where workers share state, named by a text that other processes can be given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fcguard.constraints import SharedState, SQLiteState

BACKENDS = ("sqlite", "redis", "postgres")


def open_state(place: str) -> SharedState:
    """Open what `sqlite:path`, `redis:socket:prefix` or `postgres:schema:url` names."""
    kind, _, rest = place.partition(":")
    if kind == "sqlite":
        return SQLiteState(rest, timeout=30)
    if kind == "redis":
        import redis

        from fcguard.constraints.redis_state import RedisState

        socket, _, prefix = rest.partition(":")
        return RedisState(redis.Redis(unix_socket_path=socket), prefix=prefix)
    from fcguard.constraints.postgres_state import PostgresState

    schema, _, url = rest.partition(":")
    return PostgresState(url, schema=schema, timeout=30)


def open_ledger(place: str, directory: Path) -> Any:
    """Open the ledger that lies in the same database; for Redis, which holds none, one in memory."""
    from fcguard import MemoryStore, SQLiteStore

    kind, _, rest = place.partition(":")
    if kind == "sqlite":
        return SQLiteStore(rest)
    if kind == "redis":
        return MemoryStore()
    from fcguard.stores.postgres import PostgresStore

    schema, _, url = rest.partition(":")
    return PostgresStore(url, schema=schema, spool=directory / "spool")


def close(state: Any) -> None:
    """Close a state and, with Redis, its client."""
    if hasattr(state, "close"):
        state.close()
    else:
        state._client.close()
