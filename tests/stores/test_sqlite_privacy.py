"""A ledger holds arguments and results: nobody but its owner reads it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from fcguard import Guard, SQLiteStore


def test_a_new_ledger_and_its_side_files_belong_to_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        guard = Guard(store=SQLiteStore(tmp_path / "ledger.db"))
        guard.tool(lambda: "ok", name="read", effect="read")
        assert guard.call("read").success
        modes = {
            path.name: stat.S_IMODE(path.stat().st_mode) & 0o077
            for path in tmp_path.glob("ledger.db*")
            if path.is_file()
        }
    finally:
        os.umask(before)
    assert {"ledger.db", "ledger.db-wal"} <= set(modes)
    assert {name: mode for name, mode in modes.items() if name in ("ledger.db", "ledger.db-wal", "ledger.db-shm")} == {
        name: 0 for name in modes if name in ("ledger.db", "ledger.db-wal", "ledger.db-shm")
    }
    guard.close()
