"""The exact content of a stored event: what the caller said, and under `fc` what the store knows, in one set of bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, Final

from fcguard.errors import StoreError
from fcguard.model.states import CallState
from fcguard.stores.base import Event, Identity, StoredEvent
from fcguard.stores.canonical import decode, encode

__all__ = ["STORE_KEY", "body_of", "compose", "facts_of", "identity_from", "result_of"]

STORE_KEY: Final = "fc"
"""The one top-level key of a payload that belongs to the store. Because it is hashed with the rest, a changed column shows."""

_COLUMNS: Final = tuple((field.name, None if field.default is MISSING else field.default) for field in fields(Identity))
_IN_EVERY_EVENT: Final = frozenset({"request_id", "task_id"})


def compose(
    event: Event,
    identity: Identity,
    state: CallState,
    version: int,
    attempt: int,
    *,
    opening: bool = False,
    result: Mapping[str, Any] | None = None,
) -> bytes:
    """Write the exact bytes that are stored and hashed for an event.

    Args:
        event: what happened.
        identity: columns of the call; written in full with its first event (`opening`).
        state: of the call, after the event.
        version: of the call, after the event.
        attempt: of the call, after the event.
        opening: whether this is the first event of the call.
        result: envelope that a terminal state keeps for replay.

    Raises:
        StoreError: the payload cannot be written as JSON, or uses the store's own key.
    """
    payload = event.payload
    if STORE_KEY in payload:
        raise StoreError(f"the key {STORE_KEY!r} of an event's payload belongs to the store; use another name")
    facts: dict[str, Any] = {
        "at": event.at,
        "attempt": attempt,
        "kind": event.kind,
        "request_id": identity.request_id,
        "state": state,
        "task_id": identity.task_id,
        "version": version,
    }
    if opening:
        facts["call"] = {
            name: value
            for name, default in _COLUMNS
            if (value := getattr(identity, name)) != default and name not in _IN_EVERY_EVENT
        }
    if result is not None:
        # A caller whose payload shows the envelope anyway hands over the same object; then it is written once.
        facts["result"] = result if payload.get("result") is not result else True
    return encode({**payload, STORE_KEY: facts})


def facts_of(event: StoredEvent) -> dict[str, Any]:
    """Answer what the store wrote beside the caller's payload: `at`, `kind`, `state`, `version`, `attempt`, `call`, `result`.

    Raises:
        StoreError: the bytes are not an event's.
    """
    value = decode(event.payload)
    facts = value.get(STORE_KEY) if isinstance(value, dict) else None
    if not isinstance(facts, dict):
        raise StoreError(f"event {event.seq} of task {event.task_id!r} is not an event's bytes")
    return facts


def body_of(event: StoredEvent) -> dict[str, Any]:
    """Answer the payload as the caller gave it, without the store's own key.

    Raises:
        StoreError: the bytes are not an event's.
    """
    value = decode(event.payload)
    if not isinstance(value, dict):
        raise StoreError(f"event {event.seq} of task {event.task_id!r} is not an event's bytes")
    value.pop(STORE_KEY, None)
    return value


def result_of(payload: bytes | None) -> Mapping[str, Any] | None:
    """Answer the envelope that the bytes of a terminal event hold, or None."""
    if payload is None:
        return None
    value = decode(payload)
    result = value[STORE_KEY].get("result")
    found: Mapping[str, Any] | None = value["result"] if result is True else result
    return found


def identity_from(facts: Mapping[str, Any]) -> Identity:
    """Build the identity of a call again from the facts of its first event."""
    call = facts["call"]
    return Identity(request_id=facts["request_id"], task_id=facts["task_id"], **call)
