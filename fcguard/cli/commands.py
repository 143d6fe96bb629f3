"""The commands of `fcguard`, put together from their groups."""

from __future__ import annotations

from typing import Annotated

import typer

from fcguard import __version__
from fcguard.cli import approvals, calls, evaluation, integrity, repair, suites, traces

__all__ = ["make_app"]

_HELP = """Read and repair the ledger of governed calls; evaluate them, and try agents on suites.

Every command on a ledger takes --store URL (sqlite:///path, sqlite:////absolute/path, postgresql://user@host/db) or --app module:guard;
without either, the ledger is what FCGUARD_LEDGER names, or .fcguard/ledger.db.

Exit codes: 0 all is well; 1 something was found (`verify`: a record that does not hold; `recover`: a call that needs somebody);
2 wrong usage; 3 the ledger or file cannot be read. `gate` and `suite run`: 0 pass, 1 gate failed, 2 wrong usage, 3 not decided.
"""


def _say_version(wanted: bool) -> None:
    if wanted:
        print(f"fcguard {__version__}")
        raise typer.Exit


def make_app() -> typer.Typer:
    """Build the command line."""
    app = typer.Typer(
        help=_HELP, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
    )
    app.callback()(_start)
    for group in (calls, integrity, repair, approvals, traces, evaluation, suites):
        group.add_to(app)
    return app


def _start(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_say_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Take the options that come before a command."""
