"""What the PostgreSQL ledger says about a refusal, and where: to its caller, and to nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("psycopg")

from fcguard.errors import StoreError
from fcguard.model.states import CallState
from fcguard.stores.base import Accepted, Enter, Event
from fcguard.stores.postgres import PostgresStore
from fcguard.testing.store_contract import ask, enter, identity
from tests.stores.postgres_server import Server


@pytest.fixture
def store(postgres_server: Server, postgres_schema: str, tmp_path: Path) -> Iterator[PostgresStore]:
    made = PostgresStore(postgres_server.url, schema=postgres_schema, spool=tmp_path / "spool")
    yield made
    made.close()


def test_a_refused_record_is_told_to_its_caller_only(
    store: PostgresStore, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """The server refuses the first statement while a long one after it is still being sent."""
    ask(store, enter(1))
    long = Event("call", 1.0, {"text": "x" * 8_000_000})
    for _ in range(3):
        with pytest.raises(StoreError, match="already in the ledger"):
            ask(store, Enter(identity(1), CallState.SUCCEEDED, 1, long))
    assert [record.getMessage() for record in caplog.records if record.name.startswith("psycopg")] == []
    assert capfd.readouterr().err == ""
    assert ask(store, enter(2)) == Accepted(1)
