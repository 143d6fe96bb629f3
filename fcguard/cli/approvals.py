"""List the approval requests of a store, show one as the person who decides must see it, decide it, and remove old ones."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, cast

import typer

from fcguard.approval.opening import open_approvals
from fcguard.approval.request import Decision
from fcguard.approval.sqlite import SQLiteApprovals
from fcguard.approval.store import ApprovalState, ApprovalStore, StoredApproval, time_of
from fcguard.cli.moments import seconds_of, when
from fcguard.cli.output import print_json, print_table, reporting, say
from fcguard.cli.source import Json, JsonLines
from fcguard.errors import StoreCorrupt, UsageError
from fcguard.store_urls import is_url

if TYPE_CHECKING:
    from fcguard.approval.postgres import PostgresApprovals

    Approvals: TypeAlias = SQLiteApprovals | PostgresApprovals

__all__ = ["add_to"]


class Which(StrEnum):
    """Which requests to list."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    USED = "used"
    ALL = "all"


ApprovalsUrl = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Where the approvals are: sqlite:///path, postgresql://user@host/db, or the path of a SQLite file.",
    ),
]
ApprovalsFile = Annotated[
    str | None, typer.Argument(metavar="FILE", help="Without --store: the SQLite file of SQLiteApprovals.")
]
Words = Annotated[
    list[str],
    typer.Argument(
        metavar="[FILE] REQUEST_ID",
        help="Which request; before it, without --store, the SQLite file of SQLiteApprovals.",
    ),
]
By = Annotated[str, typer.Option("--by", metavar="NAME", help="Who decides; it is recorded.")]

_WIDEST: Final = 80


def add_to(app: typer.Typer) -> None:
    """Add the commands of this group."""
    group = typer.Typer(help="Decide deferred approval requests.", no_args_is_help=True, rich_markup_mode=None)
    group.command("list")(list_requests)
    group.command("show")(show_request)
    group.command("approve")(approve_request)
    group.command("deny")(deny_request)
    group.command("prune")(prune_requests)
    app.add_typer(group, name="approvals")


def list_requests(
    file: ApprovalsFile = None,
    *,
    store: ApprovalsUrl = None,
    state: Annotated[
        Which, typer.Option("--state", help="Only requests in this state; all: every one.")
    ] = Which.PENDING,
    as_json: JsonLines = False,
) -> None:
    """List requests, oldest first; those that wait for a decision, unless told otherwise."""
    with reporting(), _reading(store, file) as approvals:
        found = approvals.requests(None if state is Which.ALL else cast(ApprovalState, state.value))
        now = time_of(approvals, time.time())
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


def show_request(words: Words, *, store: ApprovalsUrl = None, as_json: Json = False) -> None:
    """Print one request: what would run, where, why it is asked, and every argument."""
    with reporting(), _asked(store, words) as (approvals, request_id):
        stored = _find(approvals, request_id)
        now = time_of(approvals, time.time())
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
    words: Words,
    *,
    by: By,
    store: ApprovalsUrl = None,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is recorded.")] = "",
    as_json: Json = False,
) -> None:
    """Approve exactly this call, once; it runs when it is sent again."""
    _decide(store, words, approved=True, by=by, reason=reason, as_json=as_json)


def deny_request(
    words: Words,
    *,
    by: By,
    store: ApprovalsUrl = None,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; the model is told.")] = "",
    as_json: Json = False,
) -> None:
    """Deny a call; it is refused until the request expires."""
    _decide(store, words, approved=False, by=by, reason=reason, as_json=as_json)


def prune_requests(
    file: ApprovalsFile = None,
    *,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="SPAN", help="Requests that expired longer ago: 90d, 26w.")
    ],
    is_sure: Annotated[bool, typer.Option("--yes", help="Remove them; without it, only their number is told.")] = False,
    store: ApprovalsUrl = None,
    as_json: Json = False,
) -> None:
    """Remove requests that expired long ago, decided or not. What can still be decided or used stays, and so do grants."""
    with reporting(), _reading(store, file) as approvals:
        before = time_of(approvals, time.time()) - seconds_of(older_than)
        if is_sure:
            count = approvals.prune(before)
        else:
            count = sum(stored.request.expires_at < before for stored in approvals.requests())
        if as_json:
            print_json({"requests": count, "removed": is_sure, "before": before})
            return
        requests, moment = f"{count} request{'s' * (count != 1)}", f"before {when(before)} UTC"
        if is_sure:
            say(f"removed {requests} that expired {moment}")
        else:
            say(f"{requests} expired {moment}; add --yes to remove {'it' if count == 1 else 'them'}")


def _decide(url: str | None, words: Sequence[str], *, approved: bool, by: str, reason: str, as_json: bool) -> None:
    with reporting(), _asked(url, words) as (approvals, request_id):
        if not by.strip():
            raise UsageError("--by is empty; name who decides")
        request = _find(approvals, request_id).request
        now = time_of(approvals, time.time())
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
def _asked(url: str | None, words: Sequence[str]) -> Iterator[tuple[Approvals, str]]:
    """Open what `--store` or the first of two words names; answer it with the id of the request."""
    if len(words) != (2 if url is None else 1):
        raise UsageError("give --store URL and one REQUEST_ID, or a FILE and a REQUEST_ID")
    with _reading(url, words[0] if url is None else None) as approvals:
        yield approvals, words[-1]


@contextmanager
def _reading(url: str | None, file: str | None) -> Iterator[Approvals]:
    """Open approvals that exist; nothing is created, and what holds no approvals is left as it is.

    Raises:
        UsageError: there is not exactly one place.
        StoreUnavailable: there is no such file or server, or it holds no approvals.
        StoreCorrupt: what it holds cannot be read.
    """
    if (url is None) == (file is None) or (file is not None and is_url(file)):
        raise UsageError("say where the approvals are: --store URL, or the FILE of SQLiteApprovals; not both")
    approvals = _open(url, file)
    try:
        yield approvals
    except (ValueError, TypeError, KeyError) as error:
        raise StoreCorrupt(f"{approvals.name} holds what is no approval request: {error!r}") from error
    finally:
        approvals.close()


def _open(url: str | None, file: str | None) -> Approvals:
    if url is not None and is_url(url):
        return open_approvals(url, "--store", create=False)
    place = file if url is None else url
    if not place:
        raise UsageError("--store is empty; say where the approvals are")
    return SQLiteApprovals(place, create=False)


def _find(approvals: ApprovalStore, request_id: str) -> StoredApproval:
    stored = approvals.get(request_id)
    if stored is None:
        raise UsageError(
            f"there is no approval request {request_id!r} in this store; `fcguard approvals list` shows them"
        )
    return stored


def _state(stored: StoredApproval, now: float) -> str:
    """Answer the state in a word; a request that waits or was approved is over when its time is."""
    if stored.state == "used" or stored.is_open(now):
        return stored.state
    return f"{stored.state}, expired" if stored.request.is_genuine else f"{stored.state}, altered in the store"


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
