"""A damaged ledger: flipped, cut and lost bytes end in the exact content or in a clear error, never in less without a word."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fcguard import Guard
from fcguard.errors import StoreCorrupt, StoreError
from fcguard.model.states import OPEN_STATES, CallState
from fcguard.stores.audit import audit
from fcguard.stores.base import Accepted, CallQuery
from fcguard.stores.sqlite import SQLiteStore
from fcguard.stores.sqlite_check import Reached, examine
from fcguard.telemetry.observer import SilentObserver
from fcguard.testing.store_contract import ask, enter, ids, move, open_call

_ROOT = Path(__file__).resolve().parents[2]
_WORKER = """
import os, sys
from fcguard.model.states import CallState
from fcguard.stores.sqlite import SQLiteStore
from fcguard.testing.store_contract import ask, enter, move, open_call

store = SQLiteStore(sys.argv[1])
for number in range(60):
    task = f"task-{number % 3}"
    ask(store, enter(number, task_id=task))
    if number % 5 == 0:
        ask(store, open_call(1000 + number, task_id=task, effect_key=f"e{number}", idempotency_key=f"k{number}", lease=0.0))
    if number % 10 == 0:
        ask(store, move(1000 + number, 1, CallState.SUCCEEDED, result={"data": number}))
    if number == int(sys.argv[2]):
        store._open()._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
os._exit(9)  # without a word, as if killed: the log stays
"""


class Content(NamedTuple):
    """All that a ledger holds."""

    events: list[Any]
    calls: list[Any]
    heads: list[Any]

    @property
    def open_ids(self) -> list[str]:
        return sorted(ids(call for call in self.calls if call.state in OPEN_STATES))


def read(path: Path) -> Content:
    store = SQLiteStore(path, create=False)
    try:
        return Content(list(store.events()), list(store.calls()), list(store.heads()))
    finally:
        store.close()


class Left:
    """A ledger that a process left behind; every trial gets a copy."""

    def __init__(self, folder: Path, folded_at: int) -> None:
        self.path = folder / "ledger.db"
        command = [sys.executable, "-c", textwrap.dedent(_WORKER), str(self.path), str(folded_at)]
        assert subprocess.run(command, check=False, timeout=600, cwd=_ROOT).returncode == 9
        (folder / "ledger.db-shm").unlink()  # as after a restart of the machine
        folder.joinpath("whole").mkdir()
        self.content = read(self.copy(folder / "whole"))

    def copy(self, folder: Path) -> Path:
        for file in self.path.parent.glob("ledger.db*"):
            shutil.copy(file, folder / file.name)
        return folder / "ledger.db"

    def size(self, suffix: str) -> int:
        return Path(f"{self.path}{suffix}").stat().st_size


@pytest.fixture(scope="module")
def in_the_log(tmp_path_factory: pytest.TempPathFactory) -> Left:
    """All of it is in the log still."""
    return Left(tmp_path_factory.mktemp("log"), folded_at=1000)


@pytest.fixture(scope="module")
def in_both(tmp_path_factory: pytest.TempPathFactory) -> Left:
    """Two thirds are in the file, the rest in the log."""
    return Left(tmp_path_factory.mktemp("both"), folded_at=40)


def recover(path: Path) -> list[str]:
    """Answer the open calls that a recovery finds; its guard has no tools and changes nothing."""
    guard = Guard(store=SQLiteStore(path, create=False), evidence_dir=path.parent, observer=SilentObserver())
    try:
        return sorted(call.request_id for call in guard.recover(wait=0.0).calls)
    finally:
        guard.close()


def is_found_whole(path: Path) -> bool:
    store = SQLiteStore(path, create=False)
    try:
        return audit(store).ok
    except StoreError:
        return False
    finally:
        store.close()


def check(path: Path, left: Left) -> bool:
    """Recover and verify a damaged ledger; answer whether the recovery refused it."""
    found: list[str] | None = None
    said = "fcguard verify"
    try:
        found = recover(path)
    except StoreError as error:
        said = str(error)
    assert "fcguard verify" in said or "restore what is missing" in said, "the error says what to do"
    assert found in (None, left.content.open_ids), "a recovery finds every open call, or refuses the ledger"
    is_whole = is_found_whole(path)
    try:
        content: Content | None = read(path)
    except StoreError:
        content = None
    if content != left.content:
        assert not is_whole, "what is not as it was is named"
    return found is None


Damage = Callable[[Path, random.Random], None]


def _change(suffix: str, change: Callable[[bytearray, random.Random], bytes]) -> Damage:
    def damage(path: Path, dice: random.Random) -> None:
        file = Path(f"{path}{suffix}")
        file.write_bytes(change(bytearray(file.read_bytes()), dice))

    return damage


def _flip(data: bytearray, dice: random.Random) -> bytes:
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    return bytes(data)


def _blank(size: int) -> Callable[[bytearray, random.Random], bytes]:
    def blank(data: bytearray, dice: random.Random) -> bytes:
        start = dice.randrange(len(data) - size)
        data[start : start + size] = bytes(size)
        return bytes(data)

    return blank


def _scatter(data: bytearray, dice: random.Random) -> bytes:
    start = dice.randrange(len(data) - 64)
    data[start : start + 64] = dice.randbytes(64)
    return bytes(data)


def _cut(data: bytearray, dice: random.Random) -> bytes:
    return bytes(data[: dice.randrange(len(data))])


def _exchange(data: bytearray, dice: random.Random) -> bytes:
    one, other = (4096 * page for page in dice.sample(range(len(data) // 4096), 2))
    data[one : one + 4096], data[other : other + 4096] = data[other : other + 4096], data[one : one + 4096]
    return bytes(data)


@pytest.mark.parametrize("seed", range(40))
def test_a_flipped_bit_in_the_file(tmp_path: Path, in_both: Left, seed: int) -> None:
    path = in_both.copy(tmp_path)
    _change("", _flip)(path, random.Random(seed))
    check(path, in_both)


@pytest.mark.parametrize(
    "damage", [_scatter, _blank(4096), _cut, _exchange], ids=["scatter", "page", "cut", "exchange"]
)
@pytest.mark.parametrize("seed", range(6))
def test_a_torn_file(tmp_path: Path, in_both: Left, damage: Any, seed: int) -> None:
    path = in_both.copy(tmp_path)
    _change("", damage)(path, random.Random(seed))
    check(path, in_both)


@pytest.mark.parametrize("damage", [_flip, _scatter, _cut], ids=["flip", "scatter", "cut"])
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("where", ["in_the_log", "in_both"])
def test_a_log_that_sqlite_cuts_off_is_noticed(
    tmp_path: Path, request: pytest.FixtureRequest, where: str, damage: Any, seed: int
) -> None:
    """SQLite takes a log with a bad frame for one that ends there, and all that came after it is gone without an error."""
    left: Left = request.getfixturevalue(where)
    path = left.copy(tmp_path)
    _change("-wal", damage)(path, random.Random(seed))
    assert check(path, left), "the recovery refuses it"


@pytest.mark.parametrize("where", ["in_the_log", "in_both"])
def test_a_log_that_was_left_behind_is_noticed(tmp_path: Path, request: pytest.FixtureRequest, where: str) -> None:
    left: Left = request.getfixturevalue(where)
    path = left.copy(tmp_path)
    Path(f"{path}-wal").unlink()
    with pytest.raises(StoreCorrupt, match="lacks records that were acknowledged: task 'task-|task 'number "):
        recover(path)
    Path(f"{path}-lock").unlink()
    assert recover(path) != left.content.open_ids, "whoever removes the note goes on with what is there"


def test_every_kind_of_end_of_a_cut_log(tmp_path: Path, in_the_log: Left) -> None:
    """Cut at each frame's end: in itself each is a whole ledger of an earlier moment."""
    frames = (in_the_log.size("-wal") - 32) // (4096 + 24)
    for number in range(0, frames, 9):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = in_the_log.copy(folder)
        log = Path(f"{path}-wal")
        log.write_bytes(log.read_bytes()[: 32 + number * (4096 + 24)])
        with pytest.raises(StoreCorrupt, match="acknowledged"):
            recover(path)


# What is no damage


def test_a_ledger_that_was_left_behind_whole_is_recovered(tmp_path: Path, in_both: Left) -> None:
    path = in_both.copy(tmp_path)
    assert recover(path) == in_both.content.open_ids
    assert is_found_whole(path)
    assert read(path) == in_both.content


def test_without_the_note_the_ledger_is_taken_as_it_is(tmp_path: Path, in_both: Left) -> None:
    path = in_both.copy(tmp_path)
    lock = Path(f"{path}-lock")
    mark = b"fcguard.reached.v1 "
    for content in (b"", mark, mark + b"\x30", mark + b"\x02abcdef", lock.read_bytes()[:-1] + b"\x00", None):
        if content is None:
            lock.unlink()
        else:
            lock.write_bytes(content)
        assert recover(path) == in_both.content.open_ids


def test_a_note_of_another_length_is_no_note(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "ledger.db")
    ask(store, enter(1))
    session: Any = store._open()
    with session._lock.held(0.0):
        session._lock.note(b"short")
    assert session._lock.noted() == b"short"
    store.examine()
    store.close()


def test_an_older_copy_in_its_place_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    store = SQLiteStore(path)
    ask(store, enter(1))
    store.close()
    copy = path.read_bytes()
    store = SQLiteStore(path)
    ask(store, enter(2))
    store.close()
    path.write_bytes(copy)
    with pytest.raises(StoreCorrupt, match=r"had reached event 2, and now ends at 1\. .* an older copy"):
        recover(path)
    store = SQLiteStore(path)
    assert ask(store, enter(3)) == Accepted(1), "writing to it begins a new note"
    store.close()
    assert recover(path) == []


def test_a_ledger_that_was_written_anew_is_noticed(tmp_path: Path) -> None:
    path, other = tmp_path / "ledger.db", tmp_path / "other.db"
    for at, number in ((path, 1), (other, 2)):
        store = SQLiteStore(at)
        ask(store, enter(number))
        store.close()
    other.replace(path)
    with pytest.raises(StoreCorrupt, match="event 1 of task 'task' is not the one that was acknowledged"):
        recover(path)


def test_pruning_what_was_reached_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    store = SQLiteStore(path)
    for number in range(5):
        ask(store, enter(number))
    assert store.prune(1e12).calls == 5
    store.close()
    assert recover(path) == []
    assert is_found_whole(path)


def test_a_ledger_that_may_lose_records_at_a_power_cut_keeps_no_note(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "ledger.db", synchronous="NORMAL")
    ask(store, enter(1))
    session: Any = store._open()
    assert session._lock.noted() is None
    store.close()


def test_writers_of_several_processes_leave_one_note(tmp_path: Path) -> None:
    one, other = (SQLiteStore(tmp_path / "ledger.db") for _ in range(2))
    for number in range(10):
        ask(one, enter(2 * number, task_id="a"))
        ask(other, enter(2 * number + 1, task_id="b"))
        one.examine()
        other.examine()
    one.close()
    other.close()


def test_a_full_disk_at_the_note_is_no_failure_of_the_record(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "ledger.db")
    ask(store, enter(1))
    session: Any = store._open()
    session._lock._handle, kept = session._lock._handle + 1000, session._lock._handle
    with session._gate:
        session._lock.note(b"x")  # the handle is not open: as good as a full disk
    session._lock._handle = kept
    assert ask(store, enter(2)) == Accepted(1)
    store.close()


# What the check finds where nothing is missing at the end


def _tamper(path: Path, *statements: str) -> None:
    import sqlite3

    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA writable_schema=ON")
    connection.execute("DROP TRIGGER fc_events_no_update")
    connection.execute("DROP TRIGGER fc_events_no_delete")
    for statement in statements:
        connection.execute(statement)
    connection.close()


FIRST_OPEN = "(SELECT min(request_id) FROM fc_calls WHERE is_open = 1)"


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        (f"UPDATE fc_calls SET is_open = 0 WHERE request_id = {FIRST_OPEN}", "is open depends on where one looks"),
        (f"UPDATE fc_calls SET is_open = 'x' WHERE request_id = {FIRST_OPEN}", "is open depends on where one looks"),
        ("UPDATE fc_calls SET is_open = 1 WHERE request_id = 'fc-20260130-000001'", "is open depends on where one looks"),
        (f"UPDATE fc_calls SET first_seq = 999 WHERE request_id = {FIRST_OPEN}", "is listed, but cannot be read"),
        (f"UPDATE fc_calls SET last_seq = 999 WHERE request_id = {FIRST_OPEN}", "has no events"),
        (f"UPDATE fc_calls SET state = 'STASTED' WHERE request_id = {FIRST_OPEN}", "the row of the call .* cannot be read"),
        (f"UPDATE fc_calls SET next_at = 'soon' WHERE request_id = {FIRST_OPEN}", "'soon' is no time"),
        (f"UPDATE fc_calls SET owner = x'00' WHERE request_id = {FIRST_OPEN}", "cannot be read"),
        (f"UPDATE fc_events SET payload = '5' WHERE request_id = {FIRST_OPEN}", "first event of a call cannot be read"),
        (
            f"UPDATE fc_events SET payload = CAST(replace(payload, 'A1', 'A9') AS BLOB) WHERE request_id = {FIRST_OPEN}",
            "of the call .* was changed",
        ),
        (f"UPDATE fc_events SET hash = 7 WHERE request_id = {FIRST_OPEN}", "of the call .* was changed"),
        ("DELETE FROM fc_events WHERE task = 1 AND seq = (SELECT seq FROM fc_heads WHERE task = 1)", "end of task 'task-0'"),
        ("UPDATE fc_heads SET hash = zeroblob(32) WHERE task = 3", "end of task 'task-2'"),
    ],
)  # fmt: skip
def test_what_a_recovery_would_overlook_is_named(tmp_path: Path, in_both: Left, statement: str, reason: str) -> None:
    path = in_both.copy(tmp_path)
    _tamper(path, statement)
    with pytest.raises(StoreCorrupt, match=reason):
        recover(path)
    assert not is_found_whole(path)


def test_a_recovery_looks_once_and_verify_looks_again(tmp_path: Path, in_both: Left) -> None:
    path = in_both.copy(tmp_path)
    store = SQLiteStore(path)
    store.examine(once=True)
    _tamper(path, "UPDATE fc_heads SET hash = zeroblob(32) WHERE task = 3")
    store.examine(once=True)
    with pytest.raises(StoreCorrupt):
        store.examine()
    store.close()


def test_what_grows_with_the_ledger_is_looked_at_for_a_while_only(tmp_path: Path, in_both: Left) -> None:
    path = in_both.copy(tmp_path)
    store = SQLiteStore(path)
    session: Any = store._open()
    _tamper(path, "UPDATE fc_heads SET hash = zeroblob(32) WHERE task = 3")
    assert session.read(lambda connection: examine(connection, str(path), None, 0.0)) is False
    with pytest.raises(StoreCorrupt):
        session.read(lambda connection: examine(connection, str(path), None, 60.0))
    with pytest.raises(StoreCorrupt):
        session.read(lambda connection: examine(connection, str(path), Reached(1, 10**6, bytes(32)), 0.0))
    store.close()


def test_a_check_that_is_cut_short_is_interrupted_in_the_middle(tmp_path: Path, in_both: Left) -> None:
    """The time is over while SQLite looks; what comes after on the same connection is not disturbed."""
    path = in_both.copy(tmp_path)
    store = SQLiteStore(path)
    session: Any = store._open()

    def look(connection: Any) -> bool:
        class Slow:
            """A connection on which every statement is interrupted, as by a timer that fires in it."""

            def execute(self, statement: str, *parameters: Any) -> Any:
                if "quick_check" in statement:
                    connection.set_progress_handler(lambda: True, 1)
                    try:
                        return connection.execute(
                            "SELECT count(*) FROM fc_events a, fc_events b, fc_events c"
                        ).fetchall()
                    finally:
                        connection.set_progress_handler(None, 0)
                return connection.execute(statement, *parameters)

            def interrupt(self) -> None:
                connection.interrupt()

        return examine(Slow(), str(path), None, 60.0)  # type: ignore[arg-type]

    assert session.read(look) is False
    assert len(list(store.calls(CallQuery(states=OPEN_STATES)))) == len(in_both.content.open_ids)
    store.close()


def test_a_damaged_ledger_takes_no_recovery_from_the_command_line(
    tmp_path: Path, in_the_log: Left, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.cli.ledger_shell import Shell

    path = in_the_log.copy(tmp_path)
    shell = Shell(tmp_path, capsys)
    assert shell("recover").code == 1, "calls of tools that are not here"
    path = in_the_log.copy(tmp_path)
    Path(f"{path}-shm").unlink(missing_ok=True)
    _change("-wal", _cut)(path, random.Random(1))
    for command in ("recover", "verify"):
        result = shell(command)
        assert (result.code, result.err.startswith("fcguard: the ledger "), result.out) == (3, True, "")
        assert "lacks records that were acknowledged" in result.err


def test_the_writer_goes_on_beside_a_check(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "ledger.db")
    ask(store, open_call(1, effect_key="e"))
    store.examine()
    assert ask(store, move(1, 1, CallState.SUCCEEDED, result={})) == Accepted(2)
    store.examine()
    store.close()
