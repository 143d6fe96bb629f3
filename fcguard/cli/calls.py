"""List calls, show the whole story of one, and export events."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer

from fcguard.cli.moments import moment, when
from fcguard.cli.output import print_json, print_table, reporting, say
from fcguard.cli.source import App, Json, JsonLines, StoreUrl, open_guard
from fcguard.cli.story import read_story, render_story
from fcguard.errors import UsageError
from fcguard.model.states import OPEN_STATES, CallState
from fcguard.stores.base import CallQuery, StoredCall, StoredEvent
from fcguard.stores.tombstone import Tombstone, tombstone_of

__all__ = ["add_to"]

Task = Annotated[str | None, typer.Option("--task", metavar="ID", help="Only calls of this task.")]
ToolName = Annotated[str | None, typer.Option("--tool", metavar="NAME", help="Only calls of this tool.")]
States = Annotated[
    list[str] | None, typer.Option("--state", metavar="STATE", help="Only calls in this state; may be given again.")
]
OpenOnly = Annotated[bool, typer.Option("--open", help="Only calls that have not ended.")]
Since = Annotated[
    str | None, typer.Option("--since", metavar="WHEN", help="Only calls made since: 2026-01-30, or 2h, 7d ago.")
]
Until = Annotated[str | None, typer.Option("--until", metavar="WHEN", help="Only calls made before.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this group."""
    app.command("list")(list_calls)
    app.command("show")(show_call)
    app.command("export")(export_events)


def list_calls(
    *,
    task: Task = None,
    tool: ToolName = None,
    state: States = None,
    is_open: OpenOnly = False,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most calls to list, newest first.")] = 50,
    store: StoreUrl = None,
    app: App = None,
    as_json: JsonLines = False,
) -> None:
    """List calls, newest first."""
    with reporting(), open_guard(store, app) as guard:
        now = time.time()
        query = CallQuery(task, tool, _states(state, is_open), moment(since, now), moment(until, now), limit)
        rows = list(guard.store.calls(query))
        if as_json:
            for row in rows:
                print_json(_call_json(row))
            return
        print_table(
            ("request id", "made (UTC)", "tool", "purpose", "state", "attempts", "task", "why"),
            [
                (row.identity.request_id, when(row.created_at), row.identity.tool, row.identity.purpose, row.state,
                 row.attempt, row.identity.task_id, (row.result or {}).get("error_type") or (row.result or {}).get("outcome_basis"))
                for row in rows
            ],
        )  # fmt: skip


def _states(names: list[str] | None, is_open: bool) -> frozenset[CallState]:
    try:
        found = frozenset(CallState(name.upper()) for name in names or ())
    except ValueError:
        raise UsageError(f"--state {', '.join(names or ())}: the states are {', '.join(CallState)}") from None
    return found | OPEN_STATES if is_open else found


def _call_json(row: StoredCall) -> dict[str, Any]:
    fields = asdict(row)
    return {**fields.pop("identity"), **fields}


def show_call(
    request_id: Annotated[str, typer.Argument(metavar="REQUEST_ID", help="Which call.")],
    store: StoreUrl = None,
    app: App = None,
    as_json: Json = False,
) -> None:
    """Print the whole story of a call: context, arguments and folds, rules, attempts, confirmation, evidence, trace.

    Of a write that was pruned it prints what is kept: which tool it was, how it ended, and when it was pruned.
    """
    with reporting(), open_guard(store, app) as guard:
        buried = tombstone_of(guard.store, request_id)
        if buried is not None:
            _show_pruned(buried, as_json=as_json)
            return
        story = read_story(guard, request_id)
        if as_json:
            print_json(story)
        else:
            say(render_story(story))


def _show_pruned(buried: Tombstone, *, as_json: bool) -> None:
    if as_json:
        print_json({**asdict(buried), "pruned": True})
        return
    say(
        f"{buried.request_id}  {buried.tool}  {buried.state}, pruned {when(buried.pruned_at)} UTC\n"
        f"  task          {buried.task_id if buried.task_id != '-' else 'none'}\n"
        f"  ended         {when(buried.ended_at)} UTC\n"
        "  kept          its key: who repeats the write is told that it is applied already, and it is not sent\n"
        "  removed       arguments, result, events"
    )


def export_events(
    *,
    task: Task = None,
    tool: ToolName = None,
    state: States = None,
    is_open: OpenOnly = False,
    since: Since = None,
    until: Until = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Most calls to export, the newest; default: all.")
    ] = None,
    calls_only: Annotated[
        bool, typer.Option("--calls", help="One line a call with its current row, instead of its events.")
    ] = False,
    store: StoreUrl = None,
    app: App = None,
) -> None:
    """Write JSON Lines: one event a line, in chain order; `payload` holds the very bytes that `hash` covers."""
    with reporting(), open_guard(store, app) as guard:
        now = time.time()
        query = CallQuery(task, tool, _states(state, is_open), moment(since, now), moment(until, now), limit)
        if calls_only:
            for row in guard.store.calls(query):
                print_json(_call_json(row))
            return
        for event in _events(guard.store, query):
            sys.stdout.write(_line(event))


def _events(store: Any, query: CallQuery) -> Iterator[StoredEvent]:
    if query == CallQuery(task_id=query.task_id):
        yield from store.events(task_id=query.task_id)
        return
    wanted = {row.identity.request_id for row in store.calls(query)}
    for event in store.events(task_id=query.task_id):
        if event.request_id in wanted:
            yield event


def _line(event: StoredEvent) -> str:
    head = {
        "task_id": event.task_id, "seq": event.seq, "request_id": event.request_id, "kind": event.kind, "at": event.at,
        "hash": event.hash.hex(),
    }  # fmt: skip
    return f'{json.dumps(head, ensure_ascii=False)[:-1]}, "payload": {event.payload.decode("utf-8")}}}\n'
