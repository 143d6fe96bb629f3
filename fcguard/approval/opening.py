"""Which place for approvals a URL names, and what a guard does with it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from fcguard.approval.approvers import Deferred
from fcguard.approval.sqlite import SQLiteApprovals
from fcguard.approval.store import ApprovalStore, GrantStore
from fcguard.errors import ConfigurationError, StoreUnavailable
from fcguard.store_urls import is_url, split_url

if TYPE_CHECKING:
    from fcguard.approval.postgres import PostgresApprovals

__all__ = ["deferring", "open_approvals"]


def open_approvals(
    url: str, said: str = "the URL of approvals", *, create: bool = True
) -> SQLiteApprovals | PostgresApprovals:
    """Open the store of approval requests and grants that a URL names; a ledger's URL puts them beside the ledger.

    Args:
        url: `sqlite:///relative/path`, `sqlite:////absolute/path` (their directory is made) or `postgresql://user@host/database`.
        said: where the URL was given, for messages; these never hold the URL itself, which may hold a password.
        create: whether a missing file or missing tables are made, if the role may; else that is an error.

    Raises:
        ConfigurationError: the URL is of no known kind, or cannot be read.
        MissingExtraError: PostgreSQL support is not installed.
        StoreError: the SQLite file cannot be used. A server is asked at the first use.
    """
    kind, place = split_url(url, said)
    if kind == "postgresql":
        from fcguard.approval.postgres import PostgresApprovals  # who has a file does not need psycopg

        try:
            return PostgresApprovals(url, create=create)
        except ConfigurationError as error:
            raise ConfigurationError(f"{said}: {error}") from None
    if create:
        try:
            Path(place).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnavailable(f"the directory of the approvals file {place!r}: {error.strerror}") from None
    return SQLiteApprovals(place, create=create)


def deferring(given: object, approver: object, grants: object) -> tuple[Deferred, GrantStore | None]:
    """Answer the approver and the grants of a guard that was given the place of its approvals.

    Args:
        given: a store, or its URL.
        approver: what else the guard was given; None.
        grants: the same; None.

    Raises:
        ConfigurationError: there is more than one place, or what was given is none.
    """
    if approver is not None or grants is not None:
        raise ConfigurationError(
            "Guard(approvals=...) is approver=Deferred(store) and grants=store at once; give approvals alone, or these two"
        )
    if isinstance(given, (str, os.PathLike)):
        text = os.fspath(given)
        if not is_url(text):
            raise ConfigurationError(f"approvals={text!r} is a path; write approvals=SQLiteApprovals({text!r})")
        given = open_approvals(text, "approvals")
    if not isinstance(given, ApprovalStore):
        raise ConfigurationError(
            f"approvals is a {type(given).__name__}; give a store such as SQLiteApprovals('path'), or its URL"
        )
    return Deferred(given), given if isinstance(given, GrantStore) else None
