"""The page about approval: its code runs, on a real server where it names one, and its tables say what the code does."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import fcguard
from tests.page_sections import python_blocks

psycopg = pytest.importorskip("psycopg")

from fcguard.stores.postgres import PostgresStore, grant  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "approval.md"
TEXT = PAGE.read_text(encoding="utf-8")
SERVER = "postgresql://app@db.example/shop"
"""The server that the page names."""


def test_the_blocks_run_one_after_another(
    postgres_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FCGUARD_LEDGER", raising=False)
    module = ModuleType("approval_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    blocks = python_blocks(TEXT)
    assert sum(SERVER in block for block in blocks) == 1
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        admin.execute("CREATE DATABASE approval_page")
    url = postgres_server.url.removesuffix("postgres") + "approval_page"
    try:
        for number, block in enumerate(blocks):
            exec(compile(block.replace(SERVER, url), f"{PAGE.name} block {number}", "exec"), module.__dict__)
            assert "assert " in block
    finally:
        for value in module.__dict__.values():
            if isinstance(value, fcguard.Guard):
                value.close()


@pytest.mark.parametrize(("column", "decides"), [(1, True), (2, False)])
def test_the_rights_on_the_page_are_those_that_are_given(
    postgres_server: Any, tmp_path: Path, column: int, decides: bool
) -> None:
    schema = f"page_{column}"
    store = PostgresStore(postgres_server.url, schema=schema, spool=tmp_path / "spool")
    list(store.heads())
    store.close()
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {schema}_app")
        grant(admin, f"{schema}_app", schema, decides=decides)
        for table in ("fc_approvals", "fc_grants", "fc_approval_version"):
            [row] = re.findall(rf"^\| `{table}` \|.*$", TEXT, re.MULTILINE)
            said = set(re.findall(r"`([A-Z]+)`", row.strip("|").split("|")[column]))
            given = {
                right
                for (right,) in admin.execute(
                    "SELECT privilege_type FROM information_schema.column_privileges "
                    "WHERE table_schema = %s AND table_name = %s AND grantee = %s "
                    "UNION SELECT privilege_type FROM information_schema.table_privileges "
                    "WHERE table_schema = %s AND table_name = %s AND grantee = %s",
                    (schema, table, f"{schema}_app") * 2,
                )
            }
            assert given == said, table


def test_every_store_is_on_the_page() -> None:
    from fcguard import approval

    stores = {name for name in approval.__all__ if name.endswith("Approvals")}
    assert {name for name in stores if f"| `{name}(" not in TEXT} == set()
    for name in ("Guard(approvals=", "open_approvals(", "decides=False", "--store sqlite:///"):
        assert name in TEXT
