"""List the approval requests of a store, show one as the person who decides must see it, and approve or deny it."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, cast

import typer

from fcguard.approval.request import Decision
from fcguard.approval.sqlite import SQLiteApprovals
from fcguard.approval.store import ApprovalState, StoredApproval
from fcguard.cli.moments import when
from fcguard.cli.output import print_json, print_table, reporting, say
from fcguard.cli.source import Json, JsonLines
from fcguard.errors import StoreCorrupt, StoreUnavailable, UsageError

__all__ = ["add_to"]


class Which(StrEnum):
    """Which requests to list."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    USED = "used"
    ALL = "all"


ApprovalsFile = Annotated[Path, typer.Argument(metavar="FILE", help="The SQLite file of SQLiteApprovals.")]
RequestId = Annotated[str, typer.Argument(metavar="REQUEST_ID", help="Which request.")]
By = Annotated[str, typer.Option("--by", metavar="NAME", help="Who decides; it is recorded.")]

_WIDEST: Final = 80


def add_to(app: typer.Typer) -> None:
    """Add the commands of this group."""
    group = typer.Typer(help="Decide deferred approval requests.", no_args_is_help=True, rich_markup_mode=None)
    group.command("list")(list_requests)
    group.command("show")(show_request)
    group.command("approve")(approve_request)
    group.command("deny")(deny_request)
    app.add_typer(group, name="approvals")


def list_requests(
    file: ApprovalsFile,
    state: Annotated[
        Which, typer.Option("--state", help="Only requests in this state; all: every one.")
    ] = Which.PENDING,
    as_json: JsonLines = False,
) -> None:
    """List requests, oldest first; those that wait for a decision, unless told otherwise."""
    with reporting(), _reading(file) as approvals:
        found = approvals.requests(None if state is Which.ALL else cast(ApprovalState, state.value))
        now = time.time()
        if as_json:
            for stored in found:
                print_json(_as_json(stored, now))
            return
        print_table(
            (
                "request id",
                "asked (UTC)",
                "expires (UTC)",
                "state",
                "tool",
                "effect",
                "where",
                "arguments",
                "decided by",
            ),
            [_row(stored, now) for stored in found],
        )


def show_request(file: ApprovalsFile, request_id: RequestId, as_json: Json = False) -> None:
    """Print one request: what would run, where, why it is asked, and every argument."""
    with reporting(), _reading(file) as approvals:
        stored = _find(approvals, request_id)
        now = time.time()
        if as_json:
            print_json(_as_json(stored, now))
            return
        say(stored.request.describe())
        say(f"  state: {_state(stored, now)}, expires {when(stored.request.expires_at)} UTC")
        if stored.decision is not None:
            say(
                f"  decided by {stored.decision.by or 'nobody'}, {when(stored.decided_at)} UTC: {stored.decision.reason}"
            )


def approve_request(
    file: ApprovalsFile,
    request_id: RequestId,
    *,
    by: By,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is recorded.")] = "",
    as_json: Json = False,
) -> None:
    """Approve exactly this call, once; it runs when it is sent again."""
    _decide(file, request_id, approved=True, by=by, reason=reason, as_json=as_json)


def deny_request(
    file: ApprovalsFile,
    request_id: RequestId,
    *,
    by: By,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; the model is told.")] = "",
    as_json: Json = False,
) -> None:
    """Deny a call; it is refused until the request expires."""
    _decide(file, request_id, approved=False, by=by, reason=reason, as_json=as_json)


def _decide(file: Path, request_id: str, *, approved: bool, by: str, reason: str, as_json: bool) -> None:
    with reporting(), _reading(file) as approvals:
        if not by.strip():
            raise UsageError("--by is empty; name who decides")
        request = _find(approvals, request_id).request
        now = time.time()
        if not approvals.decide(request_id, Decision(approved, by, reason, digest=request.digest), now):
            state = _state(_find(approvals, request_id), now)
            raise UsageError(f"the request {request_id!r} cannot be decided: it is {state}")
        if as_json:
            print_json(_as_json(_find(approvals, request_id), now))
            return
        say(request.describe())
        then = "it runs once, when the same call is sent again" if approved else "the same call is refused until then"
        say(f"{'approved' if approved else 'denied'} by {by}, until {when(request.expires_at)} UTC: {then}")


@contextmanager
def _reading(file: Path) -> Iterator[SQLiteApprovals]:
    """Open an existing approvals file; nothing is created, and what is no approvals file is left as it is.

    Raises:
        StoreUnavailable: there is no such file, or it holds no approvals.
        StoreCorrupt: what it holds cannot be read.
    """
    where = f"approvals file {str(file)!r}"
    if not file.is_file():
        raise StoreUnavailable(f"{where}: there is no such file")
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'fc_approvals'").fetchone()
    except sqlite3.DatabaseError as error:
        raise StoreCorrupt(f"{where}: {error}") from None
    if known is None:
        raise StoreUnavailable(f"{where} holds no approvals; give the path that SQLiteApprovals(path) was given")
    try:
        yield SQLiteApprovals(file)
    except (ValueError, TypeError, KeyError) as error:
        raise StoreCorrupt(f"{where} holds what is no approval request: {error!r}") from error


def _find(approvals: SQLiteApprovals, request_id: str) -> StoredApproval:
    stored = approvals.get(request_id)
    if stored is None:
        raise UsageError(
            f"there is no approval request {request_id!r} in this file; `fcguard approvals list` shows them"
        )
    return stored


def _state(stored: StoredApproval, now: float) -> str:
    """Answer the state in a word; a request that waits or was approved is over when its time is."""
    if stored.state == "used" or stored.is_open(now):
        return stored.state
    return f"{stored.state}, expired" if stored.request.is_genuine else f"{stored.state}, altered in the file"


def _row(stored: StoredApproval, now: float) -> tuple[Any, ...]:
    request = stored.request
    arguments = json.dumps(dict(request.shown), ensure_ascii=False, default=str)
    return (
        request.request_id,
        when(request.created_at),
        when(request.expires_at),
        _state(stored, now),
        request.tool,
        request.effect,
        ", ".join(f"{name}={value}" for name, value in request.identity.items()),
        arguments if len(arguments) <= _WIDEST else f"{arguments[:_WIDEST]}... (show: all)",
        stored.decision.by if stored.decision is not None else None,
    )


def _as_json(stored: StoredApproval, now: float) -> dict[str, Any]:
    request, decision = stored.request, stored.decision
    names = ("request_id", "tool", "version", "effect", "shown", "identity", "policy_version", "created_at", "expires_at",
             "reason", "objective", "digest")  # fmt: skip
    return {
        **{name: getattr(request, name) for name in names},
        "state": stored.state,
        "is_open": stored.is_open(now),
        "decision": None if decision is None else asdict(decision),
        "decided_at": stored.decided_at,
    }
