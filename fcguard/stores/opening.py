"""Which ledger a text names: a URL that was given, or what the environment says; else the default file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fcguard.errors import ConfigurationError, MissingExtraError
from fcguard.store_urls import is_url, split_url

if TYPE_CHECKING:
    from fcguard.stores.sql_store import SqlStore

__all__ = ["default_ledger", "ledger_of", "open_url"]

_VARIABLE: Final = "FCGUARD_LEDGER"


def open_url(url: str, said: str, *, create: bool = True) -> SqlStore:
    """Make the store that a URL names; nothing is touched yet.

    Args:
        url: `sqlite:///relative/path`, `sqlite:////absolute/path` or `postgresql://user@host/database`.
        said: where the URL was given, for messages; these never hold the URL itself, which may hold a password.
        create: whether a missing SQLite file or PostgreSQL's missing tables are made at first use, if the role may; else that is an
            error then.

    Raises:
        ConfigurationError: the URL is of no known kind, or cannot be read.
        MissingExtraError: PostgreSQL support is not installed.
    """
    kind, place = split_url(url, said)
    if kind == "sqlite":
        from fcguard.stores.sqlite import SQLiteStore  # a guard with another ledger does not pay for it

        return SQLiteStore(place, create=create)
    try:
        from fcguard.stores.postgres import PostgresStore
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "psycopg", "postgres") from None
    try:
        return PostgresStore(url, create=create)
    except ConfigurationError as error:
        raise ConfigurationError(f"{said}: {error}") from None


def default_ledger(*, create: bool = True) -> SqlStore:
    """Make the store that `FCGUARD_LEDGER` names, by its URL or by the path of a SQLite file; without it, `.fcguard/ledger.db`.

    Args:
        create: whether a missing ledger is made at first use.

    Raises:
        ConfigurationError: what the variable holds names no ledger.
        MissingExtraError: PostgreSQL support is not installed.
    """
    named = os.environ.get(_VARIABLE)
    if named and is_url(named):
        return open_url(named, _VARIABLE, create=create)
    from fcguard.stores.sqlite import SQLiteStore

    return SQLiteStore(named or Path(".fcguard/ledger.db"), create=create)


def ledger_of(given: str | os.PathLike[str] | None) -> SqlStore:
    """Make the store that a guard was given as a text; None: the default one.

    Raises:
        ConfigurationError: it is a path, or a URL of no known kind.
        MissingExtraError: PostgreSQL support is not installed.
    """
    if given is None:
        return default_ledger()
    text = os.fspath(given)
    if is_url(text):
        return open_url(text, "store")
    raise ConfigurationError(f"store={text!r} is a path; write store=SQLiteStore({text!r})")
