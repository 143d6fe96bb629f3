"""Power cuts and failing writes: what was acknowledged survives, the rest is refused, and the chain holds."""

from __future__ import annotations

import random
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fcguard.errors import StoreError, StoreUnavailable
from fcguard.model.states import CallState
from fcguard.stores.base import Accepted
from fcguard.stores.chain import verify
from fcguard.stores.sqlite import SQLiteStore
from fcguard.testing.store_contract import ask, enter, move, open_call

pytest.importorskip("apsw")

from tests.stores.disk import Disk, write_image  # noqa: E402

_SMALL_LOG = 12
"""Pages after which the log is folded into the file, so that cuts hit that too."""


def _connector(disk: Disk) -> Any:
    def connect(*arguments: Any, **options: Any) -> Any:
        connection = disk.connect(*arguments, **options)
        connection.execute(f"PRAGMA wal_autocheckpoint={_SMALL_LOG}")
        return connection

    return connect


def _work(store: SQLiteStore, disk: Disk, calls: int) -> None:
    """Write reads and writes, and log every answer at the moment it comes."""
    lock = Path(f"{store.path}-lock")

    def answered(number: int, state: CallState) -> None:
        disk.log.append((f"fc-20260130-{number:06d}", "answered", state, lock.read_bytes()))

    for number in range(0, calls, 2):
        ask(store, enter(number, result={"data": number}))
        answered(number, CallState.SUCCEEDED)
        ask(store, open_call(number + 1, task_id="writes", effect_key=str(number)))
        answered(number + 1, CallState.STARTED)
        ask(store, move(number + 1, 1, CallState.SUCCEEDED, result={"data": number + 1}))
        answered(number + 1, CallState.SUCCEEDED)


def _lost(disk: Disk, directory: Path, length: int, seed: int) -> list[str]:
    """Cut the power, open what is left with the interpreter's own SQLite, and answer which acknowledged records are missing.

    The ledger's own look at itself raises no false alarm.
    """
    write_image(disk.image(length, random.Random(seed)), directory)
    promised: dict[str, CallState] = {}
    for request_id, operation, *rest in disk.log[:length]:
        if operation == "answered":
            promised[request_id] = rest[0]
            (directory / "ledger.db-lock").write_bytes(rest[1])  # what the writers noted is on the disk, at the worst
    store = SQLiteStore(directory / "ledger.db")
    store.examine()
    lost = []
    for request_id, state in promised.items():
        call = store.get(request_id)
        if call is None or (state is CallState.SUCCEEDED and call.result != {"data": int(request_id[-6:])}):
            lost.append(request_id)
    verification = verify(store.events(), heads=store.heads())
    assert verification.fault is None, str(verification.fault)
    assert ask(store, enter(900_000)) == Accepted(1), "the ledger goes on"
    store.close()
    connection = sqlite3.connect(directory / "ledger.db")
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    return lost


@pytest.fixture(scope="module", params=["FULL", "EXTRA"])
def cut_disk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Disk:
    """The log of a whole life of a ledger: made, used, folded, closed, and opened again."""
    disk = Disk()
    path = tmp_path_factory.mktemp("power") / "ledger.db"
    for calls in (30, 2):
        store = SQLiteStore(path, synchronous=request.param, connector=_connector(disk))
        if calls == 30:
            _work(store, disk, calls)
        store.close()
    return disk


@pytest.mark.parametrize("seed", range(60))
def test_a_power_cut_loses_nothing_acknowledged(cut_disk: Disk, tmp_path: Path, seed: int) -> None:
    length = random.Random(seed).randrange(1, len(cut_disk.log) + 1)
    assert _lost(cut_disk, tmp_path / "after", length, seed) == []


def test_a_power_cut_without_full_sync_does_lose(tmp_path: Path) -> None:
    """The simulation can fail: with `NORMAL`, some of the same cuts lose acknowledged records."""
    disk = Disk()
    store = SQLiteStore(tmp_path / "ledger.db", synchronous="NORMAL", connector=_connector(disk))
    _work(store, disk, 30)
    lost = []
    for seed in range(20):
        length = random.Random(seed).randrange(1, len(disk.log) + 1)
        lost += _lost(disk, tmp_path / f"after-{seed}", length, seed)
    store.close()
    assert lost


@pytest.mark.parametrize("kind", ["full", "write error", "sync error"])
@pytest.mark.parametrize("nth", [1, 2, 3, 5, 8, 13, 21, 34, 55])
def test_the_nth_write_fails(tmp_path: Path, kind: str, nth: int) -> None:
    """Whatever write or sync fails: its callers are told, accepted records stay, refused ones can be sent again."""
    import apsw

    disk = Disk()
    store = SQLiteStore(tmp_path / "ledger.db", connector=_connector(disk))
    ask(store, enter(0))
    count = 0

    def fault(operation: str) -> None:
        nonlocal count
        wanted = "sync" if kind == "sync error" else "write"
        if operation != wanted:
            return
        count += 1
        if count == nth:
            error = apsw.FullError("full") if kind == "full" else apsw.IOError("broken")
            code = {
                "full": apsw.SQLITE_FULL,
                "write error": apsw.SQLITE_IOERR_WRITE,
                "sync error": apsw.SQLITE_IOERR_FSYNC,
            }
            error.extendedresult = code[kind]
            raise error

    disk.fault = fault
    accepted, refused = [0], []
    for number in range(1, 30):
        try:
            ask(store, enter(number))
            accepted.append(number)
        except StoreUnavailable:
            refused.append(number)
    assert count >= nth
    disk.fault = lambda operation: None
    for number in refused:
        # A commit whose sync failed may have been written after all; then the id is taken.
        with suppress(StoreError):
            assert ask(store, enter(number)) == Accepted(1)
    verification = verify(store.events(), heads=store.heads())
    assert verification.fault is None, str(verification.fault)
    assert [store.get(f"fc-20260130-{number:06d}") is None for number in range(30)] == [False] * 30
    store.close()
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
