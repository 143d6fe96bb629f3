"""Make the row of a call of the columns that a database holds, and refuse what can be none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fcguard.errors import StoreCorrupt, StoreError
from fcguard.model.states import CallState
from fcguard.stores.base import Listed, StoredCall
from fcguard.stores.payload import identity_in, result_in

__all__ = ["call_of"]


def call_of(columns: Sequence[Any]) -> StoredCall:
    """Answer the row of a call.

    Args:
        columns: bytes of the first event, state, version, attempt, created at, updated at, bytes of the event with the envelope or
            None, owner, lease until, next at, settle until, numbers of the last event and of the one with the envelope; then those of
            `Listed`.

    Raises:
        StoreCorrupt: they are not those of a call: the file is damaged, or was changed by hand.
    """
    first, state, version, attempt, created_at, updated_at, result, owner = columns[:8]
    try:
        identity = identity_in(first)
    except (StoreError, TypeError, AttributeError) as error:
        raise StoreCorrupt(f"the first event of a call cannot be read ({error}); run `fcguard verify`") from error
    try:
        lease_until, next_at, settle_until = (None if moment is None else _moment(moment) for moment in columns[8:11])
        if not (isinstance(version, int) and isinstance(attempt, int) and isinstance(owner, str | None)):
            raise TypeError(f"version {version!r}, attempt {attempt!r}, owner {owner!r}")
        last_seq, result_seq = columns[11:13]
        if not (isinstance(last_seq, int) and isinstance(result_seq, int | None)):
            raise TypeError(f"last event {last_seq!r}, event with the envelope {result_seq!r}")
        return StoredCall(
            identity, CallState(state), version, attempt, _moment(created_at), _moment(updated_at), result_in(result), owner,
            lease_until, next_at, settle_until, Listed(*columns[13:15], *(flag == 1 for flag in columns[15:18]), *columns[18:]),
            last_seq, result_seq,
        )  # fmt: skip
    except (StoreError, ValueError, TypeError, AttributeError) as error:
        request_id = identity.request_id
        raise StoreCorrupt(
            f"the row of the call {request_id!r} cannot be read ({error}); run `fcguard verify`"
        ) from error


def _moment(value: Any) -> float:
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no time")
    return value
