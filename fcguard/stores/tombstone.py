"""What stays of a write when its record is pruned: the key by which its repetition is known, and so is not sent."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any, Final

from fcguard.errors import StoreCorrupt
from fcguard.model.states import CallState
from fcguard.stores.canonical import encode

__all__ = ["Tombstone", "keys_digest_of", "seal_of", "tombstone_in", "tombstone_of"]

_DOMAIN: Final = b"fcguard.tombstone.v1\n"


@dataclass(frozen=True, slots=True)
class Tombstone:
    """The key of a write that took effect and was pruned. It holds no arguments and no results.

    Attributes:
        idempotency_scope, idempotency_key: what a repetition is known by; the scope of a call without one is empty.
        digest: digest of tool and normalized arguments.
        request_id, task_id, tool: which call it was.
        state: how it ended.
        ended_at: wall clock in seconds when it last changed.
        pruned_at: wall clock in seconds when its record left.
    """

    idempotency_scope: str
    idempotency_key: str
    digest: str
    request_id: str
    task_id: str
    tool: str
    state: CallState
    ended_at: float
    pruned_at: float

    def __str__(self) -> str:
        day = time.strftime("%Y-%m-%d", time.gmtime(self.pruned_at))
        return f"{self.request_id} ({self.tool}, {self.state}) was pruned on {day}: its effect is applied, its record is gone"


def seal_of(tombstone: Tombstone) -> bytes:
    r"""Answer what shows that a tombstone was edited: `SHA256("fcguard.tombstone.v1\n" || its fields as canonical JSON)`.

    It needs no secret, so it shows an edit by hand, not one by somebody who makes the seal anew.
    """
    fields = [*astuple(tombstone)[:7], float(tombstone.ended_at), float(tombstone.pruned_at)]
    return hashlib.sha256(_DOMAIN + encode({"tombstone": fields})).digest()


def keys_digest_of(store: Any) -> str | None:
    """Answer one digest of all keys of pruned writes, by their seals; None of a store that keeps no such thing.

    Raises:
        StoreError: the ledger cannot be read.
    """
    read = getattr(store, "tombstones", None)
    if read is None:
        return None
    digest = hashlib.sha256(_DOMAIN)
    for _, seal in read():
        digest.update(seal)
    return digest.hexdigest()


def tombstone_in(columns: Sequence[Any]) -> tuple[Tombstone, bytes]:
    """Answer a tombstone and its seal as a database holds them.

    Args:
        columns: the fields in their order, then the seal.

    Raises:
        StoreCorrupt: they are not those of a tombstone.
    """
    scope, key, digest, request_id, task_id, tool, state, ended_at, pruned_at, seal = columns
    texts = scope, key, digest, request_id, task_id, tool
    try:
        if not all(isinstance(text, str) for text in texts) or not isinstance(seal, bytes):
            raise TypeError(f"{texts!r} are no texts, or {seal!r} no seal")
        state, ended_at, pruned_at = CallState(state), float(ended_at), float(pruned_at)
        return Tombstone(scope, key, digest, request_id, task_id, tool, state, ended_at, pruned_at), seal
    except (TypeError, ValueError) as error:
        raise StoreCorrupt(f"a key of a pruned write cannot be read ({error}); run `fcguard verify`") from error


def tombstone_of(store: Any, request_id: str) -> Tombstone | None:
    """Answer what a ledger keeps of a pruned call; None if nothing, or if it is a store that keeps no such thing.

    Raises:
        StoreError: the ledger cannot be read.
    """
    ask = getattr(store, "tombstone", None)
    found: Tombstone | None = None if ask is None else ask(request_id)
    return found
