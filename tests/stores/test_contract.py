"""The store contract, run against the stores that need no server."""

from __future__ import annotations

from pathlib import Path

import pytest

from fcguard.stores.memory import MemoryStore
from fcguard.stores.sqlite import SQLiteStore
from fcguard.testing.recoverable_contract import RecoverableStoreContract
from fcguard.testing.store_contract import MakeStore


class TestMemoryStore(RecoverableStoreContract):
    @pytest.fixture
    def make_store(self) -> MakeStore:
        return MemoryStore


class TestSQLiteStore(RecoverableStoreContract):
    @pytest.fixture
    def make_store(self, tmp_path: Path) -> MakeStore:
        return lambda: SQLiteStore(tmp_path / "evidence" / "ledger.db")
