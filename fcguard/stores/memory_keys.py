"""The keys of writes that left the memory ledger: a bounded number of tombstones."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from fcguard.stores.judge import guards_key
from fcguard.stores.memory_rows import Row
from fcguard.stores.tombstone import Tombstone

__all__ = ["Tombstones", "key_of"]


class Tombstones:
    """Keep the keys of the writes that left last.

    Args:
        most: how many to keep; beyond that the oldest are forgotten.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_key: dict[tuple[str, str], Tombstone] = {}
        self._by_id: dict[str, Tombstone] = {}

    def bury(self, row: Row, now: float) -> bool:
        """Keep the key of a call that is about to leave, if it holds one; answer whether it does."""
        key = key_of(row)
        if key is None:
            return False
        identity = row.identity
        tombstone = Tombstone(
            *key, identity.digest, identity.request_id, identity.task_id, identity.tool, row.state, row.updated_at, now
        )
        self._by_id[identity.request_id] = tombstone
        self._by_key[key] = tombstone
        self._fit()
        return True

    def of_key(self, scope: str | None, key: str) -> Tombstone | None:
        """Answer what is left of the call that succeeded under this idempotency key."""
        return self._by_key.get((scope or "", key))

    def of_call(self, request_id: str) -> Tombstone | None:
        """Answer what is left of a call."""
        return self._by_id.get(request_id)

    def forget(self, before: float) -> int:
        """Forget the keys of calls that ended before a wall clock; answer how many."""
        old = [one for one in self._by_id.values() if one.ended_at < before]
        for tombstone in old:
            self._remove(tombstone)
        return len(old)

    def mend(self, held: Collection[str]) -> None:
        """Put right what an interrupt between two lines left; a call that is still held has no tombstone."""
        kept = [one for request_id, one in self._by_id.items() if request_id not in held]
        self._by_id = {one.request_id: one for one in kept}
        self._by_key = {(one.idempotency_scope, one.idempotency_key): one for one in kept}
        self._fit()

    def __iter__(self) -> Iterator[Tombstone]:
        return iter(sorted(self._by_id.values(), key=lambda one: one.request_id))

    def _fit(self) -> None:
        while len(self._by_id) > self._most:
            self._remove(next(iter(self._by_id.values())))

    def _remove(self, tombstone: Tombstone) -> None:
        key = tombstone.idempotency_scope, tombstone.idempotency_key
        if self._by_key.get(key) is tombstone:
            del self._by_key[key]
        self._by_id.pop(tombstone.request_id, None)


def key_of(row: Row) -> tuple[str, str] | None:
    """Answer scope and key that a finished call holds; None if it holds none. One that was entered whole has no owner."""
    identity = row.identity
    if row.owner is None or identity.idempotency_key is None or not guards_key(row.state):
        return None
    return identity.idempotency_scope or "", identity.idempotency_key
