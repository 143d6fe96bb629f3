"""Check a ledger, note how far it reached, and prune what is old."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from fcguard.cli.moments import seconds_of, when
from fcguard.cli.output import Exit, print_json, reporting, say
from fcguard.cli.source import App, Json, StoreUrl, open_guard, store_of
from fcguard.errors import UsageError
from fcguard.model.states import TERMINAL_STATES
from fcguard.stores.audit import audit, newest, pruned_since
from fcguard.stores.base import CallQuery
from fcguard.stores.chain import Verification
from fcguard.stores.checkpoint import Checkpoint, read_checkpoint, take_checkpoint, write_checkpoint
from fcguard.stores.recoverable import Pruned, RecoverableStore

__all__ = ["add_to"]

_SENT_AGAIN: Final = "their writes {} sent again if somebody repeats them"
_REFUSED: Final = "a write that took effect {} refused if somebody repeats it, as already applied"


def add_to(app: typer.Typer) -> None:
    """Add the commands of this group."""
    app.command("verify")(verify_ledger)
    app.command("checkpoint")(write_heads)
    app.command("prune")(prune_calls)


def verify_ledger(
    against: Annotated[
        list[Path] | None,
        typer.Option("--against", metavar="FILE", help="A checkpoint kept elsewhere; may be given again."),
    ] = None,
    public_key: Annotated[
        Path | None,
        typer.Option(
            "--public-key", metavar="FILE", help="Accept only checkpoints signed with this Ed25519 key (PEM)."
        ),
    ] = None,
    unpruned: Annotated[
        bool,
        typer.Option("--unpruned", help="Nothing was pruned since the newest checkpoint: what left since is a fault."),
    ] = False,
    store: StoreUrl = None,
    app: App = None,
    as_json: Json = False,
) -> None:
    """Check every hash chain and every row, and name the first record that does not hold. Exit code 1 if one does not.

    A ledger that was cut off, or written anew as a whole, shows only against a checkpoint, and so does what was deleted and
    declared as pruned.
    """
    with reporting(), open_guard(store, app) as guard:
        checkpoints = [_checkpoint(path, public_key) for path in against or ()]
        if public_key is not None and not checkpoints:
            raise UsageError("--public-key needs --against: it checks the signature of checkpoints")
        if unpruned and not checkpoints:
            raise UsageError("--unpruned needs --against: it compares with what a checkpoint knew")
        ledger = store_of(guard)
        found = audit(ledger, checkpoints, unpruned=unpruned)
        last = newest(checkpoints)
        since = None if last is None else sum(1 + end - first for _, first, end in pruned_since(ledger.gaps(), last))
        if as_json:
            print_json({**asdict(found), "ok": found.ok, "pruned_since": since})
        else:
            say(_verdict(found, len(checkpoints), since))
    if not found.ok:
        raise typer.Exit(Exit.FINDING)


def _checkpoint(path: Path, public_key: Path | None) -> Checkpoint:
    checkpoint = read_checkpoint(path.read_bytes())
    if public_key is not None:
        _signing().check_signature(checkpoint, public_key.read_bytes())
    return checkpoint


def _signing() -> Any:
    from fcguard.stores import signing

    return signing


def _verdict(found: Verification, checkpoints: int, since: int | None) -> str:
    against = f", against {checkpoints} checkpoint{'s' * (checkpoints != 1)}" if checkpoints else ""
    newer = f" ({since} since the newest checkpoint)" if since is not None else ""
    pruned = f", {found.pruned} pruned{newer}" if found.pruned else ""
    keys = f", {_keys(found.tombstones)} of pruned writes" if found.tombstones else ""
    read = f"{found.events} events of {found.tasks} tasks{pruned}{keys}{against}"
    return f"all hold: {read}" if found.fault is None else f"DOES NOT HOLD: {found.fault}\n{read} read before"


def write_heads(
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to; default: standard output.")
    ] = None,
    sign: Annotated[
        Path | None,
        typer.Option("--sign", metavar="KEYFILE", help="Sign with this Ed25519 private key (PEM); extra `sign`."),
    ] = None,
    store: StoreUrl = None,
    app: App = None,
) -> None:
    """Write a checkpoint: how far every chain reaches now. Keep it where whoever can change the ledger cannot change it."""
    with reporting(), open_guard(store, app) as guard:
        checkpoint = take_checkpoint(store_of(guard), time.time())
        if sign is not None:
            checkpoint = _signing().sign(checkpoint, sign.read_bytes())
        data = write_checkpoint(checkpoint)
        if out is None:
            sys.stdout.write(data.decode())
        else:
            out.write_bytes(data)
            say(f"{len(checkpoint.heads)} chains noted in {out}")


def prune_calls(
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="SPAN", help="Calls that ended longer ago: 90d, 26w.")
    ],
    is_sure: Annotated[bool, typer.Option("--yes", help="Remove them; without it, only their number is told.")] = False,
    with_keys: Annotated[
        bool,
        typer.Option(
            "--with-keys", help="Remove the keys of writes as well, also of calls pruned before: they are SENT AGAIN."
        ),
    ] = False,
    store: StoreUrl = None,
    app: App = None,
    as_json: Json = False,
) -> None:
    """Remove calls that ended long ago, with their events. Open calls stay; chains stay checkable, with a declared gap.

    The keys of writes that took effect stay: who repeats one, by the same business key in a task of the same id, is told
    that it is applied already, and it is not sent. With --with-keys that protection goes, too: such a write is SENT AGAIN. An
    interrupted prune loses nothing; run it again to go on.
    """
    with reporting(), open_guard(store, app) as guard:
        ledger, before = store_of(guard), time.time() - seconds_of(older_than)
        pruned = _prune(ledger, before, keys=with_keys) if is_sure else _prunable(ledger, before, keys=with_keys)
        if as_json:
            print_json({**asdict(pruned), "removed": is_sure, "before": before})
        else:
            say(_told(pruned, before, is_sure=is_sure, keys=with_keys))


def _prune(ledger: RecoverableStore, before: float, *, keys: bool) -> Pruned:
    """Prune, and tell a person who waits at a terminal how far it is."""
    last = Pruned(0, 0)

    def tell(done: Pruned) -> None:
        nonlocal last
        last = done
        if sys.stderr.isatty():
            print(f"\r{done.calls} calls removed ...", end="", file=sys.stderr, flush=True)

    try:
        return ledger.prune(before, keys=keys, progress=tell)
    except KeyboardInterrupt:
        print(
            f"\ninterrupted; {last.calls} calls are removed, perhaps some more. Nothing is lost: run it again to go on",
            file=sys.stderr,
        )
        raise
    finally:
        if sys.stderr.isatty():
            print(file=sys.stderr)


def _prunable(ledger: RecoverableStore, before: float, *, keys: bool) -> Pruned:
    """Count what would be removed."""
    ended = CallQuery(states=frozenset(TERMINAL_STATES), until=before)
    rows = [row.listed is not None and row.listed.holds_key and row.listed.idempotency_key is not None
            for row in ledger.calls(ended) if row.updated_at < before]  # fmt: skip
    holding = sum(rows)
    old = sum(1 for tombstone, _ in ledger.tombstones() if tombstone.ended_at < before) if keys else 0
    return Pruned(len(rows), 0, 0 if keys else holding, holding + old if keys else 0)


def _keys(count: int) -> str:
    return f"{count} key{'s' * (count != 1)}"


def _told(pruned: Pruned, before: float, *, is_sure: bool, keys: bool) -> str:
    left = f"{_keys(pruned.forgotten if keys else pruned.kept)} of writes"
    effect = (_SENT_AGAIN if keys else _REFUSED).format("are" if is_sure and keys else "is" if is_sure else "would be")
    moment = f"before {when(before)} UTC"
    if is_sure:
        removed = f"removed {pruned.calls} calls and {pruned.events} events from {moment}"
        return f"{removed}, and {left}: {effect}" if keys else f"{removed}; kept {left}: {effect}"
    ended = f"{pruned.calls} calls ended {moment}; add --yes to remove them"
    return f"{ended} and {left}: {effect}" if keys else f"{ended}; {left} would be kept: {effect}"
