"""A note of how far every chain reached, to be kept where whoever can change the ledger cannot change it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from fcguard.errors import StoreError
from fcguard.stores.base import Gap, Head
from fcguard.stores.canonical import decode, encode
from fcguard.stores.tombstone import keys_digest_of

__all__ = ["Checkpoint", "Signature", "body_to_sign", "read_checkpoint", "take_checkpoint", "write_checkpoint"]

_FORMAT: Final = "fcguard.checkpoint.v1"


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature over the bytes of `body_to_sign`. Hexadecimal.

    Attributes:
        algorithm: `Ed25519`.
        public_key: raw public key; says who claims to have signed, proves nothing until compared with a known key.
        value: the signature.
    """

    algorithm: str
    public_key: str
    value: str


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far every chain reached at a moment.

    Attributes:
        at: wall clock in seconds.
        heads: last event of every task.
        signature: None: unsigned.
        gaps: what had been pruned then, so that what was pruned since can be told; None: not noted.
        keys: digest of the keys of pruned writes that were kept then; None: not noted.
    """

    at: float
    heads: tuple[Head, ...]
    signature: Signature | None = None
    gaps: tuple[Gap, ...] | None = None
    keys: str | None = None


class _HasHeads(Protocol):
    def heads(self) -> Iterable[Head]:
        """Yield the last event of every task."""
        ...

    def gaps(self) -> Iterable[Gap]:
        """Yield the ranges of events that were pruned."""
        ...


def take_checkpoint(store: _HasHeads, at: float) -> Checkpoint:
    """Note how far every chain of a ledger reaches now, and what was pruned of it.

    Args:
        store: the ledger.
        at: wall clock in seconds.
    """
    gaps = tuple(
        sorted(store.gaps(), key=lambda gap: (gap.task_id, gap.first))
    )  # first: what is pruned later is pruned since
    keys = keys_digest_of(store)
    return Checkpoint(at, tuple(sorted(store.heads(), key=lambda head: head.task_id)), gaps=gaps, keys=keys)


def body_to_sign(checkpoint: Checkpoint) -> bytes:
    """Answer the canonical bytes of a checkpoint without its signature."""
    return encode(_body(checkpoint))


def write_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Write a checkpoint as JSON, to be kept elsewhere."""
    fields = _body(checkpoint)
    signature = checkpoint.signature
    if signature is not None:
        fields["signature"] = {
            "algorithm": signature.algorithm,
            "public_key": signature.public_key,
            "value": signature.value,
        }
    return json.dumps(decode(encode(fields)), indent=1, sort_keys=True).encode() + b"\n"


def read_checkpoint(data: bytes) -> Checkpoint:
    """Read what `write_checkpoint` wrote. The signature is not checked; see `fcguard.stores.signing`.

    Raises:
        StoreError: it is no checkpoint of a known format, or not a whole one.
    """
    fields = decode(data)
    if not isinstance(fields, dict) or fields.get("format") != _FORMAT:
        raise StoreError(
            f"this is no checkpoint of the format {_FORMAT!r}; give the file that `fcguard checkpoint` wrote"
        )
    try:
        heads = tuple(Head(head["task_id"], int(head["seq"]), bytes.fromhex(head["hash"])) for head in fields["heads"])
        signature, gaps = fields.get("signature"), fields.get("gaps")
        return Checkpoint(
            float(fields["at"]),
            heads,
            None if signature is None else Signature(**signature),
            None if gaps is None else tuple(map(_gap, gaps)),
            fields.get("keys"),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"the checkpoint is not whole: {type(error).__name__}: {error}") from error


def _gap(fields: dict[str, Any]) -> Gap:
    return Gap(fields["task_id"], int(fields["first"]), int(fields["last"]), bytes.fromhex(fields["hash"]))


def _body(checkpoint: Checkpoint) -> dict[str, Any]:
    body: dict[str, Any] = {
        "at": checkpoint.at,
        "format": _FORMAT,
        "heads": [{"hash": head.hash.hex(), "seq": head.seq, "task_id": head.task_id} for head in checkpoint.heads],
    }
    if checkpoint.gaps is not None:
        body["gaps"] = [
            {"first": gap.first, "hash": gap.hash.hex(), "last": gap.last, "task_id": gap.task_id}
            for gap in checkpoint.gaps
        ]
    if checkpoint.keys is not None:
        body["keys"] = checkpoint.keys
    return body
