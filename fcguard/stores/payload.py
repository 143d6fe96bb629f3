"""The exact content of a stored event: what the caller said, and under `fc` what the store knows, in one set of bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fcguard.errors import StoreError
from fcguard.model.states import CallState
from fcguard.stores.base import Event, Identity, StoredEvent
from fcguard.stores.canonical import decode, record

__all__ = ["STORE_KEY", "body_of", "compose", "facts_of", "identity_in", "result_in"]

STORE_KEY: Final = "fc"
"""The one top-level key of a payload that belongs to the store. Because it is hashed with the rest, a changed column shows."""


def compose(
    event: Event,
    call: tuple[str, str],
    state: CallState,
    *,
    version: int,
    attempt: int,
    identity: Identity | None = None,
    result: Mapping[str, Any] | None = None,
) -> bytes:
    """Write the exact bytes that are stored and hashed for an event.

    Args:
        event: what happened.
        call: task id and request id.
        state: of the call, after the event.
        version: of the call, after the event.
        attempt: of the call, after the event.
        identity: columns that never change, written with the first event of a call.
        result: envelope that is kept for replay.

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
        "request_id": call[1],
        "state": state,
        "task_id": call[0],
        "version": version,
    }
    if identity is not None:
        facts["call"] = _columns(identity)
    if result is not None:
        # A caller whose payload shows the envelope anyway hands over the same object; then it is written once.
        facts["result"] = result if payload.get("result") is not result else True
    return record({**payload, STORE_KEY: facts})


def _columns(identity: Identity) -> dict[str, Any]:
    # Written out, because this runs for every call and a loop over names costs four times as much.
    columns: dict[str, Any] = {
        "effect": identity.effect,
        "purpose": identity.purpose,
        "tool": identity.tool,
        "tool_version": identity.tool_version,
    }
    if identity.digest:
        columns["digest"] = identity.digest
    if identity.step is not None:
        columns["step"] = identity.step
    if identity.parent_id is not None:
        columns["parent_id"] = identity.parent_id
    if identity.tenant is not None:
        columns["tenant"] = identity.tenant
    if identity.idempotency_scope is not None:
        columns["idempotency_scope"] = identity.idempotency_scope
    if identity.idempotency_key is not None:
        columns["idempotency_key"] = identity.idempotency_key
    if identity.effect_key is not None:
        columns["effect_key"] = identity.effect_key
    if identity.settle is not None:
        columns["settle"] = identity.settle
    return columns


def facts_of(event: StoredEvent) -> dict[str, Any]:
    """Answer what the store wrote beside the caller's payload: `at`, `kind`, `state`, `version`, `attempt`, `call`, `result`.

    Raises:
        StoreError: the bytes are not an event's.
    """
    facts: dict[str, Any] = _whole(event.payload)[STORE_KEY]
    return facts


def body_of(event: StoredEvent) -> dict[str, Any]:
    """Answer the payload as the caller gave it, without the store's own key.

    Raises:
        StoreError: the bytes are not an event's.
    """
    value = _whole(event.payload)
    del value[STORE_KEY]
    return value


def result_in(payload: bytes | None) -> Mapping[str, Any] | None:
    """Answer the envelope that the bytes of an event hold, or None.

    Raises:
        StoreError: the bytes are not an event's.
    """
    if payload is None:
        return None
    value = _whole(payload)
    result = value[STORE_KEY].get("result")
    found: Mapping[str, Any] | None = value.get("result") if result is True else result
    return found


def identity_in(payload: bytes) -> Identity:
    """Build the identity of a call from the bytes of its first event.

    Raises:
        StoreError: the bytes are not those of a first event.
    """
    facts = _whole(payload)[STORE_KEY]
    try:
        return Identity(request_id=facts["request_id"], task_id=facts["task_id"], **facts["call"])
    except (KeyError, TypeError) as error:
        raise StoreError(f"stored bytes are not the first event of a call: {error}") from error


def _whole(payload: bytes) -> dict[str, Any]:
    value = decode(payload)
    if not isinstance(value, dict) or not isinstance(value.get(STORE_KEY), dict):
        raise StoreError("stored bytes are not an event's")
    return value
