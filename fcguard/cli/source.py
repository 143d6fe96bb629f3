"""Where a command's ledger comes from: a URL, a guard of the user's application, or the default file."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from fcguard.errors import ConfigurationError, UsageError
from fcguard.guard import Guard
from fcguard.reconcile.takeover import recoverable
from fcguard.store_urls import is_url
from fcguard.stores.opening import default_ledger, open_url
from fcguard.stores.recoverable import RecoverableStore
from fcguard.stores.sql_store import SqlStore
from fcguard.stores.sqlite import SQLiteStore
from fcguard.telemetry.observer import SilentObserver

__all__ = ["App", "Json", "JsonLines", "StoreUrl", "load_name", "open_guard", "open_store", "store_of"]

StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="The ledger: sqlite:///path, postgresql://user@host/db, or the path of a SQLite file.",
    ),
]
App = Annotated[
    str | None,
    typer.Option("--app", metavar="MODULE:GUARD", help="A guard of your application, or a function that makes one."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text for people.")]
JsonLines = Annotated[bool, typer.Option("--json", help="Print JSON Lines, an object a line, instead of a table.")]


def open_store(url: str | None) -> SqlStore:
    """Open an existing ledger by its URL, or by the path of a SQLite file; None: the default one. Nothing is created.

    Raises:
        ConfigurationError: the URL, or what `FCGUARD_LEDGER` holds, names no ledger.
        MissingExtraError: PostgreSQL support is not installed.
    """
    if url is None:
        return default_ledger(create=False)
    return open_url(url, "--store", create=False) if is_url(url) else SQLiteStore(url, create=False)


def open_guard(url: str | None, app: str | None) -> Guard:
    """Answer the application's guard, or one without tools over the ledger of a URL.

    Raises:
        UsageError: both are given, or the application has no such guard.
    """
    if app is not None:
        if url is not None:
            raise UsageError("give --store or --app, not both: the guard has its own store")
        return _load(app)
    return Guard(store=open_store(url), observer=SilentObserver())


def store_of(guard: Guard) -> RecoverableStore:
    """Answer the store of a guard as one that can be recovered from and checked.

    Raises:
        UsageError: it cannot.
    """
    return recoverable(guard.store)


def load_name(option: str, text: str, example: str) -> Any:
    """Import what `module:name` names, from the current directory too; None if the module has no such name.

    Args:
        option: the command's option, for messages.
        text: what it was given.
        example: what it may look like.

    Raises:
        UsageError: it is no `module:name`, or there is no such module.
    """
    module_name, colon, name = text.partition(":")
    if not (module_name and colon and name):
        raise UsageError(f"{option} {text!r}: write module:name, as in {option} {example}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return getattr(importlib.import_module(module_name), name, None)
    except ModuleNotFoundError as error:
        raise UsageError(f"{option} {text!r}: {error}; run the command where the module can be imported") from error


def _load(app: str) -> Guard:
    found = load_name("--app", app, "shop.tools:guard")
    if found is not None and not isinstance(found, Guard) and callable(found):
        try:
            found = found()
        except TypeError as error:
            raise ConfigurationError(
                f"--app {app!r}: a function that makes a guard takes no arguments: {error}"
            ) from error
    if not isinstance(found, Guard):
        module_name, _, name = app.partition(":")
        raise UsageError(f"--app {app!r}: {module_name!r} has no guard {name!r}")
    return found
