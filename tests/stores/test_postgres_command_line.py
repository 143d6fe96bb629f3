"""The command line on a PostgreSQL server: it creates nothing, and says in one line what is wrong and who can help."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fcguard import Guard, MemoryStore
from fcguard.errors import StoreUnavailable
from fcguard.model.states import CallState

psycopg = pytest.importorskip("psycopg")

from fcguard.stores.postgres import PostgresStore, grant  # noqa: E402
from fcguard.testing.store_contract import ask, enter, move, open_call  # noqa: E402
from tests.cli.ledger_shell import Shell  # noqa: E402
from tests.stores.postgres_server import Server  # noqa: E402

_numbers = itertools.count()
PAGE = Path(__file__).resolve().parents[2] / "docs" / "ledger.md"

READING = [
    ("list",),
    ("list", "--open", "--json"),
    ("show", "fc-1"),
    ("export",),
    ("export", "--calls"),
    ("verify",),
    ("checkpoint",),
    ("prune", "--older-than", "90d"),
]
WRITING = [
    ("prune", "--older-than", "90d", "--yes", "--with-keys"),
    ("recover", "--wait", "0"),
    ("resolve", "fc-1", "--applied", "--by", "ann", "--reason", "seen"),
]


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.chdir(tmp_path)
    return Shell(tmp_path, capsys)


@pytest.fixture
def database(postgres_server: Server) -> str:
    """The URL of an empty database, as its owner."""
    name = f"empty_{next(_numbers)}"
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    return postgres_server.url.removesuffix("postgres") + name


@pytest.fixture
def admin(database: str) -> Iterator[Any]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def role(admin: Any, database: str) -> Iterator[str]:
    """The URL of a role that may do nothing yet; it is called `app_user`."""
    admin.execute("DROP ROLE IF EXISTS app_user; CREATE ROLE app_user LOGIN")
    yield database.replace("postgres@", "app_user@")
    admin.execute("DROP OWNED BY app_user CASCADE; DROP ROLE app_user")


def objects(admin: Any) -> list[Any]:
    return list(admin.execute("SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema|public)'"))


def fill(url: str, folder: Path) -> None:
    store = PostgresStore(url, spool=folder / "spool")
    ask(store, enter(1))
    store.close()


@pytest.mark.parametrize("command", READING + WRITING, ids=" ".join)
def test_a_database_without_a_ledger_is_left_as_it_is(
    shell: Shell, admin: Any, database: str, tmp_path: Path, command: tuple[str, ...]
) -> None:
    result = shell(*command, "--store", database, store=False)
    assert (result.code, result.out) == (3, "")
    assert "there is no ledger in 'postgresql://127.0.0.1" in result.err and "check" in result.err
    assert len(result.err.splitlines()) == 1
    assert objects(admin) == []
    assert list(tmp_path.iterdir()) == []


def test_the_variable_names_a_database_without_a_ledger(
    shell: Shell, admin: Any, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FCGUARD_LEDGER", database)
    assert (shell("verify", store=False).code, objects(admin)) == (3, [])


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_a_ledger_of_an_older_version_is_not_changed_by_looking_at_it(
    shell: Shell, admin: Any, database: str, tmp_path: Path, command: tuple[str, ...]
) -> None:
    fill(database, tmp_path)
    admin.execute("SET search_path TO fcguard; DROP TABLE fc_tombstones; DROP FUNCTION fc_tombstones_stay")
    admin.execute("UPDATE fc_meta SET value = '1' WHERE key = 'schema'")
    result = shell(*command, "--store", database, store=False)
    assert (result.code, result.out, len(result.err.splitlines())) == (3, "", 1)
    assert "has schema 1, and this fcguard needs 2; let the owner of its tables" in result.err
    assert admin.execute("SELECT value, to_regclass('fc_tombstones') FROM fc_meta").fetchall() == [("1", None)]


def test_a_ledger_that_is_there_is_read(shell: Shell, database: str, tmp_path: Path) -> None:
    fill(database, tmp_path)
    assert shell("verify", "--store", database, store=False).out.startswith("all hold: 1 events of 1 tasks")
    assert len(shell("list", "--json", "--store", database, store=False).lines) == 1


# What is said


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("postgres@", "nobody_here@", "there is no such role"),
        ("/empty_", "/missing_", "there is no such database"),
        ("postgres@", "pw_user:hunter22@", "does not accept the role's password"),
        ("postgres@", "pw_user@", "asks for a password"),
        ("postgres@", "no_login@", "may not log in"),
    ],
)
@pytest.mark.parametrize("command", [("list",), ("approvals", "list")], ids=" ".join)
def test_a_connection_that_is_refused_says_why(
    shell: Shell, guarded: str, before: str, after: str, said: str, command: tuple[str, ...]
) -> None:
    assert before in guarded
    result = shell(*command, "--store", guarded.replace(before, after), store=False)
    assert (result.code, len(result.err.splitlines())) == (3, 1)
    assert said in result.err, result.err
    for wrong in ("cannot be reached", "did not take the record", "\N{REPLACEMENT CHARACTER}", "hunter22"):
        assert wrong not in result.err


@pytest.fixture
def guarded(postgres_server: Server, database: str, admin: Any) -> Iterator[str]:
    """The URL of a database on a server that asks one role for its password."""
    admin.execute("DROP ROLE IF EXISTS pw_user; CREATE ROLE pw_user LOGIN PASSWORD 'right'")
    admin.execute("DROP ROLE IF EXISTS no_login; CREATE ROLE no_login NOLOGIN")
    (place,) = admin.execute("SHOW hba_file").fetchone()
    rules = Path(place)
    old = rules.read_text()
    rules.write_text("host all pw_user 127.0.0.1/32 scram-sha-256\n" + old)
    admin.execute("SELECT pg_reload_conf()")
    while admin.execute("SELECT count(*) FROM pg_hba_file_rules WHERE 'pw_user' = ANY(user_name)").fetchone() == (0,):
        pass
    yield database
    rules.write_text(old)
    admin.execute("SELECT pg_reload_conf()")


def test_a_server_that_is_not_there_is_said_in_one_readable_line(shell: Shell) -> None:
    result = shell("verify", "--store", "postgresql://127.0.0.1:1/x", store=False)
    assert (result.code, len(result.err.splitlines())) == (3, 1)
    assert "cannot be read: the server cannot be reached" in result.err
    assert "\N{REPLACEMENT CHARACTER}" not in result.err and "\t" not in result.err


# Paths


@pytest.mark.parametrize("command", [*READING, *WRITING, ("approvals", "list")], ids=" ".join)
def test_a_store_may_be_a_path_and_is_not_made(shell: Shell, tmp_path: Path, command: tuple[str, ...]) -> None:
    result = shell(*command, "--store", "nowhere.db", store=False)
    assert (result.code, len(result.err.splitlines()), list(tmp_path.iterdir())) == (3, 1, [])


def test_a_path_names_what_its_url_names(shell: Shell, tmp_path: Path) -> None:
    from fcguard import SQLiteStore
    from fcguard.approval import SQLiteApprovals

    store = SQLiteStore(tmp_path / "ledger.db")
    ask(store, enter(1))
    store.close()
    SQLiteApprovals(tmp_path / "approvals.db")
    for path in (str(tmp_path / "ledger.db"), "ledger.db"):
        assert shell("list", "--json", "--store", path, store=False).out == shell("list", "--json").out != ""
    assert shell("approvals", "list", "--store", "approvals.db", store=False).code == 0
    for command in (("list",), ("approvals", "list")):
        assert shell(*command, "--store", "", store=False).code == 2


# Roles


def test_grant_is_enough_where_nothing_is(shell: Shell, role: str, database: str) -> None:
    """The code of `docs/ledger.md`, word for word: one call of the owner, and the role can work."""
    [code] = [
        block
        for block in re.findall(r"```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
        if "grant(" in block
    ]
    for said, here in (
        ("postgresql://owner@host/db", database),
        ("postgresql://app_role@host/db", role),
        ('"app_role"', '"app_user"'),
    ):
        assert said in code
        code = code.replace(said, here)
    module: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), module)
    store = module["store"]
    ask(store, enter(1))
    store.close()


def test_a_grant_that_fails_leaves_nothing(admin: Any) -> None:
    with pytest.raises(psycopg.errors.UndefinedObject, match="nobody_here"):
        grant(admin, "nobody_here")
    assert objects(admin) == []


def test_a_grant_in_a_transaction_of_the_caller_is_his_to_commit(role: str, database: str, admin: Any) -> None:
    with psycopg.connect(database) as owner:
        before = owner.execute("SHOW search_path").fetchone()
        grant(owner, "app_user")
        assert owner.execute("SHOW search_path").fetchone() == before
        owner.rollback()
    assert objects(admin) == []


def may_decide(admin: Any) -> bool:
    statement = "SELECT has_column_privilege('app_user', 'fcguard.fc_approvals', 'decision', 'UPDATE')"
    return bool(admin.execute(statement).fetchone()[0])


def test_granting_again_does_not_let_who_asks_decide(admin: Any, role: str) -> None:
    for decides, then in ((False, False), (None, False), (True, True), (None, True), (False, False)):
        grant(admin, "app_user", decides=decides)
        assert may_decide(admin) is then


def test_a_role_that_only_asks_is_told_who_may_decide(shell: Shell, admin: Any, role: str) -> None:
    grant(admin, "app_user", decides=False)
    guard = Guard(store=MemoryStore(), approvals=role)

    @guard.tool(effect="destructive")
    def drop(table: str) -> str:
        return table

    with guard.task("clean up"):
        waiting = guard.call("drop", {"table": "logs"})
    assert waiting.error_type == "APPROVAL_REQUIRED", waiting
    with pytest.raises(StoreUnavailable, match="this role may ask, but not decide") as refused:
        guard.resume(waiting.request_id, approved=True, by="me")
    assert "postgres.grant" not in str(refused.value)
    guard.close()
    result = shell("approvals", "approve", waiting.request_id, "--by", "me", "--store", role, store=False)
    assert (result.code, len(result.err.splitlines())) == (3, 1)
    assert "whose role may: the owner" in result.err and "postgres.grant" not in result.err


def test_a_role_that_may_not_prune_is_told_who_may_and_nothing_else(
    shell: Shell, admin: Any, database: str, role: str, tmp_path: Path
) -> None:
    store = PostgresStore(database, spool=tmp_path / "spool")
    for number in range(300):  # more than are sent before the server's first answer is read
        ask(store, open_call(number, idempotency_scope="s", idempotency_key=f"k{number}", digest="d"))
        ask(store, move(number, 1, CallState.SUCCEEDED, result={"data": 1}))
    store.close()
    grant(admin, "app_user")
    command = [sys.executable, "-m", "fcguard.cli.main", "prune", "--older-than", "0s", "--yes", "--store", role]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (3, "", 1), done.stderr
    assert "prune it as the role that owns its tables" in done.stderr and "postgres.grant" not in done.stderr
