"""Recover calls that were left open, resolve those that need a person, and print the recovery table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from fcguard.cli.output import Exit, print_json, print_table, reporting, say
from fcguard.cli.source import App, Json, JsonLines, StoreUrl, open_guard
from fcguard.errors import UsageError
from fcguard.model.tool import Tool
from fcguard.recovery.own_plans import effective_rows, source_of
from fcguard.recovery.table import DEFAULT_TABLE, EFFECTS, RecoveryTable

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
    parked: Annotated[
        bool,
        typer.Option("--parked", help="Ask about parked calls again, and close those whose effect is there."),
    ] = False,
    store: StoreUrl = None,
    app: App = None,
    as_json: Json = False,
) -> None:
    """Take up calls that an earlier process left open: write the spool, confirm, send again with a licence, or park.

    Needs --app for everything but the spool and the report: only your application has the tools. Exit code 1 if a call
    needs somebody: a person (`fcguard resolve`), or, without --app, a guard that has its tool.
    """  # fmt: skip
    with reporting(), open_guard(store, app) as guard:
        if parked and app is None:
            raise UsageError("--parked needs --app: only your application has the tools that can be asked")
        found = guard.recover(wait=wait, assume_dead_after=assume_dead_after, parked=parked)
        if as_json:
            print_json(found.to_json())
        else:
            say(str(found))
    if found.unresolved or found.drained.failed or (app is None and found.not_mine):
        raise typer.Exit(Exit.FINDING)


def resolve_call(
    request_id: Annotated[str, typer.Argument(metavar="REQUEST_ID", help="Which call.")],
    *,
    by: Annotated[str, typer.Option("--by", metavar="NAME", help="Who decides.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="How they know; it is recorded.")],
    applied: Annotated[bool, typer.Option("--applied", help="Its effect is in the system.")] = False,
    not_applied: Annotated[bool, typer.Option("--not-applied", help="Its effect is not in the system.")] = False,
    store: StoreUrl = None,
    app: App = None,
    as_json: Json = False,
) -> None:
    """Close an open call as a person decides who has looked."""
    with reporting():
        if applied == not_applied:
            raise UsageError(f"say --applied or --not-applied{', not both' if applied else ''}; nothing was changed")
        with open_guard(store, app) as guard:
            result = guard.resolve(request_id, applied=applied, by=by, reason=reason)
        if as_json:
            print_json(result.model_dump(mode="json"))
        else:
            say(f"{request_id}: {'SUCCEEDED' if applied else 'FAILED'}. {result.message}")


def print_recovery_table(
    as_json: JsonLines = False,
    app: App = None,
    tool: Annotated[
        str | None, typer.Option("--tool", metavar="NAME", help="What follows for one tool of --app, and who says so.")
    ] = None,
) -> None:
    """Print which actions follow which failure: the default table, that of a guard, or what counts for one of its tools."""
    with reporting():
        if app is None:
            if tool is not None:
                raise UsageError("--tool needs --app: only your application has the tools")
            _print_table(DEFAULT_TABLE, (), as_json)
            return
        with open_guard(None, app) as guard:
            if tool is None:
                _print_table(guard.recovery_table, guard.tools, as_json)
            else:
                _print_rows(guard.recovery_table, _named(guard.tools, tool), as_json)


def _named(tools: Sequence[Tool], name: str) -> Tool:
    for tool in tools:
        if tool.name == name:
            return tool
    raise UsageError(
        f"there is no tool {name!r}; the guard has {', '.join(sorted(tool.name for tool in tools)) or 'none'}"
    )


def _print_table(table: RecoveryTable, tools: Sequence[Tool], as_json: bool) -> None:
    plans: dict[tuple[str, str], dict[str, str]] = {}
    for failure_class, error_type, effect, plan in table.rows():
        source = source_of(failure_class if error_type == "*" else error_type, effect, plan)
        if as_json:
            print_json(
                {"class": failure_class, "error_type": error_type, "effect": effect, "plan": plan, "from": source}
            )
        mark = "" if source == "default" else " (guard)"
        plans.setdefault((failure_class, error_type), {})[effect] = " > ".join(plan) + mark
    if as_json:
        return
    print_table(
        ("class", "error type", *EFFECTS),
        [(*key, *(plan.get(effect, "as the class") for effect in EFFECTS)) for key, plan in plans.items()],
    )
    own = [f"{tool.name} ({', '.join(tool.recovery)})" for tool in tools if tool.recovery]
    if own:
        say(f"\nTools with plans of their own: {', '.join(own)}. See --tool NAME.")


def _print_rows(table: RecoveryTable, tool: Tool, as_json: bool) -> None:
    rows = list(effective_rows(table, tool))
    if as_json:
        for row in rows:
            print_json({"tool": tool.name, "effect": tool.effect, "class": row.failure_class, "error_type": row.error_type,
                        "plan": row.plan, "from": row.source, "row": row.row})  # fmt: skip
        return
    say(f"{tool.name} ({tool.effect})")
    print_table(
        ("class", "error type", "plan", "from", "row"),
        [(row.failure_class, row.error_type, " > ".join(row.plan), row.source, row.row) for row in rows],
    )
