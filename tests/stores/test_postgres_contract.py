"""The store contract, run against a real PostgreSQL server."""

from __future__ import annotations

from pathlib import Path

import pytest

from fcguard.testing.recoverable_contract import RecoverableStoreContract
from fcguard.testing.store_contract import MakeStore
from tests.stores.postgres_server import Server

pytest.importorskip("psycopg")

from fcguard.stores.postgres import PostgresStore  # noqa: E402


class TestPostgresStore(RecoverableStoreContract):
    @pytest.fixture
    def make_store(self, postgres_server: Server, postgres_schema: str, tmp_path: Path) -> MakeStore:
        return lambda: PostgresStore(postgres_server.url, schema=postgres_schema, spool=tmp_path / "spool")
