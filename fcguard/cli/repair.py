"""Recover calls that were left open, resolve those that need a person, and print the recovery table."""

from __future__ import annotations

from typing import Annotated

import typer

from fcguard.cli.output import Exit, print_json, print_table, reporting, say
from fcguard.cli.source import App, Json, StoreUrl, open_guard
from fcguard.errors import UsageError
from fcguard.recovery.table import DEFAULT_TABLE, EFFECTS

__all__ = ["add_to"]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this group."""
    app.command("recover")(recover_calls)
    app.command("resolve")(resolve_call)
    app.command("recovery-table")(print_recovery_table)


def recover_calls(
    wait: Annotated[
        float, typer.Option("--wait", min=0.0, metavar="SECONDS", help="Most seconds to wait for settle windows.")
    ] = 30.0,
    assume_dead_after: Annotated[
        float | None,
        typer.Option(
            "--assume-dead-after",
            min=0.0,
            metavar="SECONDS",
            help="Count a silent owner on another host as dead. Accepts the risk that it sends after all.",
        ),
    ] = None,
    store: StoreUrl = None,
    app: App = None,
    as_json: Json = False,
) -> None:
    """Take up calls that an earlier process left open: write the spool, confirm, send again with a licence, or park.

    Needs --app for everything but the spool and the report: only your application has the tools. Exit code 1 if a call
    needs somebody: a person (`fcguard resolve`), or a guard that has its tool.
    """  # fmt: skip
    with reporting(), open_guard(store, app) as guard:
        found = guard.recover(wait=wait, assume_dead_after=assume_dead_after)
        if as_json:
            print_json(found.to_json())
        else:
            say(str(found))
    if found.unresolved or found.drained.failed:
        raise typer.Exit(Exit.FINDING)


def resolve_call(
    request_id: Annotated[str, typer.Argument(metavar="REQUEST_ID", help="Which call.")],
    *,
    by: Annotated[str, typer.Option("--by", metavar="NAME", help="Who decides.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="How they know; it is recorded.")],
    applied: Annotated[
        bool | None,
        typer.Option("--applied/--not-applied", help="Whether its effect is in the system.", show_default=False),
    ] = None,
    store: StoreUrl = None,
    app: App = None,
    as_json: Json = False,
) -> None:
    """Close an open call as a person decides who has looked."""
    with reporting():
        if applied is None:
            raise UsageError("say --applied or --not-applied")
        with open_guard(store, app) as guard:
            result = guard.resolve(request_id, applied=applied, by=by, reason=reason)
        if as_json:
            print_json(result.model_dump(mode="json"))
        else:
            say(f"{request_id}: {'SUCCEEDED' if applied else 'FAILED'}. {result.message}")


def print_recovery_table(as_json: Json = False, app: App = None) -> None:
    """Print which actions follow which failure: the default table, or that of a guard."""
    with reporting():
        if app is None:
            rows = list(DEFAULT_TABLE.rows())
        else:
            with open_guard(None, app) as guard:
                rows = list(guard.recovery_table.rows())
        if as_json:
            for failure_class, error_type, effect, plan in rows:
                print_json({"class": failure_class, "error_type": error_type, "effect": effect, "plan": plan})
            return
        plans: dict[tuple[str, str], dict[str, str]] = {}
        for failure_class, error_type, effect, plan in rows:
            plans.setdefault((failure_class, error_type), {})[effect] = " > ".join(plan)
        print_table(
            ("class", "error type", *EFFECTS),
            [(*key, *(plan.get(effect, "as the class") for effect in EFFECTS)) for key, plan in plans.items()],
        )
