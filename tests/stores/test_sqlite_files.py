"""The SQLite ledger made, opened and configured; files that are no ledger are refused and kept as they are."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fcguard.errors import ConfigurationError, StoreCorrupt, StoreError, StoreTooNew, StoreUnavailable
from fcguard.stores.base import Accepted
from fcguard.stores.sqlite import SQLiteStore
from fcguard.stores.sqlite_schema import SCHEMA_VERSION
from fcguard.testing.store_contract import ask, enter

_ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStore]:
    made = SQLiteStore(path)
    yield made
    made.close()


def _both_refuse(store: SQLiteStore, error: type[StoreError], match: str) -> None:
    """Writing answers the error through `done`, reading raises it."""
    with pytest.raises(error, match=match):
        ask(store, enter(1))
    with pytest.raises(error, match=match):
        store.get("fc-1")
    store.close()


# Construction and configuration


def test_constructing_touches_nothing(tmp_path: Path) -> None:
    threads = set(threading.enumerate())
    store = SQLiteStore(tmp_path / "deep" / "ledger.db")
    assert list(tmp_path.iterdir()) == []
    assert set(threading.enumerate()) <= threads
    store.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "options", [{"synchronous": "OFF"}, {"synchronous": "full"}, {"lease": 0}, {"lease": -1.0}, {"busy_timeout": -1}]
)
def test_options_without_meaning_are_refused(path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        SQLiteStore(path, **options)


@pytest.mark.parametrize("name", ["", ":memory:"])
def test_a_path_that_keeps_nothing_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="MemoryStore"):
        SQLiteStore(name)


@pytest.mark.parametrize(("synchronous", "level"), [("NORMAL", 1), ("FULL", 2), ("EXTRA", 3)])
def test_the_pragmas_take_hold(path: Path, synchronous: Any, level: int) -> None:
    connections: list[sqlite3.Connection] = []

    def connector(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connections.append(sqlite3.connect(*arguments, **options))
        return connections[-1]

    store = SQLiteStore(path, synchronous=synchronous, connector=connector)
    ask(store, enter(1))
    store.get("fc-1")
    for connection in connections:
        assert connection.execute("PRAGMA synchronous").fetchone() == (level,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store.close()


def test_a_connection_that_ignores_the_pragmas_is_refused(path: Path) -> None:
    class Stubborn(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            return super().execute(sql.replace("synchronous=FULL", "synchronous=OFF"), *parameters)

    store = SQLiteStore(path, connector=lambda *a, **k: sqlite3.connect(*a, **k, factory=Stubborn))
    _both_refuse(store, StoreUnavailable, "cannot be made durable here")


# Files that are no ledger, or not one of ours


def test_a_ledger_of_a_newer_schema_is_refused(path: Path, store: SQLiteStore) -> None:
    ask(store, enter(1))
    store.close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version={SCHEMA_VERSION + 1}")
    connection.close()
    before = path.read_bytes()
    _both_refuse(SQLiteStore(path), StoreTooNew, "upgrade fcguard")
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"this is not a database at all" * 10, b"SQLite format 3\0" + b"\xff" * 4000])
def test_a_file_that_is_no_database_is_refused_and_kept(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    _both_refuse(SQLiteStore(path), StoreCorrupt, "not a whole ledger")
    assert path.read_bytes() == content


def test_a_database_of_another_program_is_refused(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE customers (id)")
    connection.close()
    _both_refuse(SQLiteStore(path), StoreCorrupt, "another program")


def test_a_torn_ledger_is_refused(path: Path, store: SQLiteStore) -> None:
    for number in range(200):
        ask(store, enter(number))
    store.close()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] + b"\x5a" * (len(whole) // 2))
    store = SQLiteStore(path)
    with pytest.raises(StoreCorrupt):
        for number in range(200):
            store.get(f"fc-20260130-{number:06d}")
            ask(store, enter(1000 + number))
    store.close()


def test_a_missing_ledger_is_not_made_if_not_wanted(path: Path) -> None:
    _both_refuse(SQLiteStore(path, create=False), StoreUnavailable, "there is no ledger")
    assert not path.exists()


def test_a_directory_is_no_ledger(path: Path) -> None:
    path.mkdir()
    _both_refuse(SQLiteStore(path), StoreUnavailable, "cannot be opened")


def test_a_parent_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    _both_refuse(SQLiteStore(tmp_path / "file" / "ledger.db"), StoreUnavailable, "cannot be made|cannot be opened")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="needs root, to become a user without rights")
def test_a_read_only_directory_is_refused_by_name() -> None:
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        _refused_for_a_user_without_rights(Path(directory))


def _refused_for_a_user_without_rights(directory: Path) -> None:
    ledger = directory / "ledger.db"
    made = SQLiteStore(ledger)
    ask(made, enter(1))
    made.close()
    code = """
        import os, sys
        from fcguard.stores.sqlite import SQLiteStore
        from fcguard.errors import StoreUnavailable
        from fcguard.testing.store_contract import ask, enter
        os.setegid(65534)
        os.seteuid(65534)
        for path in sys.argv[1:]:
            store = SQLiteStore(path)
            try:
                ask(store, enter(2))
            except StoreUnavailable as error:
                print(error)
            store.close()
    """
    finished = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(ledger), str(directory / "new" / "ledger.db")],
        capture_output=True, text=True, timeout=600, check=False, env=os.environ | {"PYTHONPATH": str(_ROOT)},
    )  # fmt: skip
    assert finished.stderr == ""
    assert len(finished.stdout.splitlines()) == 2
    assert "cannot be made" in finished.stdout
    assert list(directory.glob("new*")) == []


def test_a_removed_ledger_is_noticed(path: Path, store: SQLiteStore) -> None:
    ask(store, enter(1))
    aside = path.with_name("aside.db")
    path.rename(aside)
    with pytest.raises(StoreUnavailable, match="was removed while open"):
        ask(store, enter(2))
    aside.rename(path)
    assert ask(store, enter(2)) == Accepted(1)
    shutil.copy(path, aside)
    aside.replace(path)
    with pytest.raises(StoreUnavailable, match="was replaced while open"):
        ask(store, enter(3))
