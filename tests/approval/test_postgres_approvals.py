"""Approvals on a real PostgreSQL server: its clock, the rights of roles, lost and silent connections, forks, versions."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fcguard import Guard, MemoryStore
from fcguard.approval import Deferred, Grant
from fcguard.errors import ConfigurationError, StoreClosed, StoreError, StoreTooNew, StoreUnavailable
from fcguard.runtime import SystemClock

psycopg = pytest.importorskip("psycopg")

from fcguard.approval.postgres import PostgresApprovals  # noqa: E402
from fcguard.constraints.postgres_state import PostgresState  # noqa: E402
from fcguard.stores.postgres import PostgresStore, grant  # noqa: E402
from tests.stores.proxy import Proxy  # noqa: E402

HOUR = 3600.0
Make = Callable[..., PostgresApprovals]


@pytest.fixture
def schema(make_place: Any) -> str:
    return str(make_place("postgres").split(":")[1])


@pytest.fixture
def make(postgres_server: Any, schema: str) -> Iterator[Make]:
    made: list[PostgresApprovals] = []

    def make_approvals(url: str = postgres_server.url, **options: Any) -> PostgresApprovals:
        made.append(PostgresApprovals(url, **{"schema": schema, **options}))
        return made[-1]

    yield make_approvals
    for approvals in made:
        approvals.close()


@pytest.fixture
def admin(postgres_server: Any) -> Iterator[Any]:
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def proxy(postgres_server: Any) -> Iterator[Proxy]:
    proxy = Proxy(postgres_server.port)
    yield proxy
    proxy.watch = lambda data: None
    proxy.close()


def through(proxy: Proxy) -> str:
    return f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres"


def drop_connections(admin: Any) -> None:
    admin.execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
        "WHERE pid <> pg_backend_pid() AND application_name = 'fcguard'"
    )


# The server's clock


class OffClock(SystemClock):
    """The machine's clock, off by some seconds."""

    def __init__(self, off: float) -> None:
        self.off = off

    def now(self) -> float:  # type: ignore[override]
        return time.time() + self.off


class Host:
    """A worker with a clock of its own, that asks for approval in a place that hosts share."""

    def __init__(self, approvals: PostgresApprovals, off: float, is_async: bool, ttl: float) -> None:
        approver = Deferred(approvals, ttl_seconds=ttl)
        self.guard = Guard(store=MemoryStore(), approver=approver, grants=approvals, clock=OffClock(off))
        self.is_async, self.ran = is_async, 0

        def run(table: str) -> str:
            self.ran += 1
            return table

        async def arun(table: str) -> str:
            return run(table)

        self.guard.tool(arun if is_async else run, name="purge", effect="destructive")

    def ask(self) -> Any:
        with self.guard.task("clean", task_id="clean"):
            if self.is_async:
                return asyncio.run(self.guard.acall("purge", {"table": "logs"}))
            return self.guard.call("purge", {"table": "logs"})

    def resume(self, request_id: str) -> Any:
        if self.is_async:
            return asyncio.run(self.guard.aresume(request_id, approved=True, by="ann"))
        return self.guard.resume(request_id, approved=True, by="ann")


@pytest.fixture
def host(make: Make) -> Iterator[Callable[..., Host]]:
    made: list[Host] = []

    def make_host(off: float, is_async: bool, ttl: float = 60.0) -> Host:
        made.append(Host(make(), off, is_async, ttl))
        return made[-1]

    yield make_host
    for one in made:
        one.guard.close()


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("off", [HOUR, -HOUR])
def test_hosts_whose_clocks_are_off_share_a_request(host: Any, off: float, is_async: bool) -> None:
    asking, other = host(off, is_async), host(-off, is_async)
    waiting = asking.ask()
    assert waiting.error_type == "APPROVAL_REQUIRED"
    assert other.ask().blocked_by == waiting.blocked_by == waiting.request_id
    assert other.resume(waiting.blocked_by).success
    assert (asking.ran, other.ran) == (0, 1)


@pytest.mark.parametrize("off", [HOUR, -HOUR])
def test_what_has_expired_on_the_server_has_expired_everywhere(host: Any, make: Make, off: float) -> None:
    asking = host(off, False, ttl=0.2)
    waiting, approvals = asking.ask(), make()
    stored = approvals.get(waiting.blocked_by)
    assert stored is not None and stored.request.expires_at - stored.request.created_at == pytest.approx(0.2)
    while approvals.now() < stored.request.expires_at:
        pass
    assert not approvals.decide(waiting.blocked_by, stored.request.approve("ann"), time.time() - HOUR)
    again = asking.ask()
    assert again.blocked_by == again.request_id != waiting.request_id


def test_a_grant_ends_on_the_servers_clock(make: Make) -> None:
    approvals = make()
    now = approvals.now()
    approvals.add(Grant("tool", None, by="ann", expires_at=now - 1))
    assert approvals.use("tool", "1", {}, {}, now - HOUR) is None
    approvals.add(valid := Grant("tool", None, by="ann", expires_at=now + HOUR))
    assert approvals.use("tool", "1", {}, {}, now + 2 * HOUR) == valid


def test_a_decision_says_when_the_server_took_it(make: Make, request_for: Any) -> None:
    approvals = make()
    before = approvals.now()
    request = request_for(now=before)
    approvals.put(request, 0.0)
    assert approvals.decide(request.request_id, request.approve("ann"), 0.0)
    stored = approvals.get(request.request_id)
    assert stored is not None and stored.decided_at is not None
    assert before <= stored.decided_at <= approvals.now()


# Rights


@pytest.fixture
def role(admin: Any, postgres_server: Any, schema: str) -> str:
    """The URL of a role that may do nothing yet."""
    admin.execute(f"CREATE ROLE {schema}_app LOGIN")
    return str(postgres_server.url.replace("postgres@", f"{schema}_app@"))


@pytest.fixture
def ledger(postgres_server: Any, schema: str, tmp_path: Path) -> Iterator[PostgresStore]:
    store = PostgresStore(postgres_server.url, schema=schema, spool=tmp_path / "spool")
    list(store.heads())
    yield store
    store.close()


def test_one_grant_covers_ledger_approvals_and_constraints(
    make: Make, admin: Any, role: str, schema: str, ledger: Any, request_for: Any, tmp_path: Path
) -> None:
    with pytest.raises(StoreUnavailable, match=r"lacks rights; let the owner run fcguard\.stores\.postgres\.grant"):
        make(role).requests()
    grant(admin, f"{schema}_app", schema)
    approvals = make(role)
    request = request_for(now=approvals.now())
    approvals.put(request, 0.0)
    assert approvals.decide(request.request_id, request.approve("ann"), 0.0)
    assert approvals.take(request.request_id, 0.0) is not None
    assert approvals.prune(0.0) == 0
    approvals.add(given := Grant("tool", None, by="ann"))
    assert approvals.use("tool", "1", {}, {}, 0.0) == given and approvals.revoke(given.grant_id)
    state = PostgresState(role, schema=schema)
    assert [state.change("n", lambda stored: ((stored or 0) + 1, stored)) for _ in range(2)] == [None, 1]
    state.close()
    store = PostgresStore(role, schema=schema, spool=tmp_path / "app-spool")
    assert list(store.heads()) == []
    store.close()


def test_a_role_that_only_asks_cannot_say_yes(
    make: Make, admin: Any, role: str, schema: str, ledger: Any, request_for: Any
) -> None:
    grant(admin, f"{schema}_app", schema)
    grant(admin, f"{schema}_app", schema, decides=False)
    asking, deciding = make(role), make()
    request, denied = (request_for({"n": n}, now=asking.now()) for n in (1, 2))
    for one in (request, denied):
        assert asking.put(one, 0.0).state == "pending"
    deciding.add(Grant("tool", None, by="ann", uses=1))
    assert asking.use("tool", "1", {}, {}, 0.0) is not None and asking.use("tool", "1", {}, {}, 0.0) is None
    for refused in (
        lambda: asking.decide(request.request_id, request.approve("me"), 0.0),
        lambda: asking.add(Grant("tool", None, by="me")),
        lambda: asking.revoke(deciding.grants()[0][0].grant_id),
        lambda: asking.prune(0.0),
    ):
        with pytest.raises(StoreUnavailable, match="may ask, but not decide"):
            refused()
    assert deciding.decide(denied.request_id, denied.deny("ann"), 0.0)
    with psycopg.connect(role, autocommit=True) as connection:
        connection.execute(f"SET search_path TO {schema}")
        for statement, error in (
            ("UPDATE fc_approvals SET state = 'approved'", psycopg.errors.CheckViolation),
            ("UPDATE fc_approvals SET state = 'approved' WHERE state = 'denied'", psycopg.errors.RaiseException),
            ("UPDATE fc_approvals SET decision = '{}'", psycopg.errors.InsufficientPrivilege),
            ("UPDATE fc_grants SET uses_left = 9", psycopg.errors.RaiseException),
            ("DELETE FROM fc_approvals", psycopg.errors.InsufficientPrivilege),
        ):
            with pytest.raises(error):
                connection.execute(statement)
    assert deciding.decide(request.request_id, request.approve("ann"), 0.0)
    assert asking.take(request.request_id, 0.0) is not None


def test_not_even_the_owner_gives_a_use_back(make: Make, admin: Any, schema: str, request_for: Any) -> None:
    approvals = make()
    request = request_for(now=approvals.now())
    approvals.put(request, 0.0)
    approvals.decide(request.request_id, request.approve("ann"), 0.0)
    approvals.take(request.request_id, 0.0)
    approvals.add(Grant("tool", None, by="ann", uses=2))
    for statement in (
        "UPDATE {}.fc_approvals SET state = 'approved'",
        "UPDATE {}.fc_approvals SET request = '{{}}'",
        "UPDATE {}.fc_grants SET uses_left = uses_left + 1",
        "UPDATE {}.fc_grants SET body = '{{}}', uses_left = uses_left - 1",
    ):
        with pytest.raises(psycopg.errors.RaiseException, match="fcguard: a"):
            admin.execute(statement.format(schema))
    assert approvals.get(request.request_id).state == "used" and approvals.grants()[0][1] == 2  # type: ignore[union-attr]


# Versions and tables


def test_tables_of_a_newer_version_are_refused(make: Make, admin: Any, schema: str) -> None:
    assert make().requests() == []
    admin.execute(f"UPDATE {schema}.fc_approval_version SET version = 99")
    with pytest.raises(StoreTooNew, match="version 99, this fcguard knows up to 1; upgrade fcguard"):
        make().requests()


def test_nothing_is_made_where_that_is_not_wanted(make: Make, admin: Any, schema: str) -> None:
    with pytest.raises(StoreUnavailable, match="holds no approvals"):
        make(create=False).requests()
    assert admin.execute("SELECT to_regnamespace(%s)", (schema,)).fetchone() == (None,)
    assert make().requests() == [] == make(create=False).requests()


@pytest.mark.parametrize("is_ledger_first", [True, False])
def test_they_lie_beside_the_ledger_whichever_comes_first(
    postgres_server: Any, make: Make, schema: str, tmp_path: Path, is_ledger_first: bool
) -> None:
    store, approvals = PostgresStore(postgres_server.url, schema=schema, spool=tmp_path / "spool"), make()
    steps: list[Callable[[], Any]] = [lambda: list(store.heads()), lambda: approvals.requests()]
    for step in steps if is_ledger_first else reversed(steps):
        assert step() == []
    assert list(store.heads()) == [] == approvals.requests()
    store.close()


def _open(url: str, schema: str) -> int:
    approvals = PostgresApprovals(url, schema=schema)
    try:
        return len(approvals.requests())
    finally:
        approvals.close()


def test_processes_that_come_first_at_once_make_the_tables_once(
    processes: Any, postgres_server: Any, schema: str
) -> None:
    assert processes.starmap(_open, [(postgres_server.url, schema)] * 8, chunksize=1) == [0] * 8


def test_odd_names_are_names(make: Make, request_for: Any) -> None:
    approvals = make(schema='we"ird %s {x} 名')
    request = request_for(now=approvals.now())
    assert approvals.put(request, 0.0).request == request == make(schema='we"ird %s {x} 名').requests()[0].request


def test_what_postgresql_cannot_keep_is_an_error_of_the_store(make: Make) -> None:
    for name in ("a\0b", "\ud83d"):
        with pytest.raises(StoreError, match="approvals in postgresql://127"):
            make().get(name)


def test_secrets_are_not_written_down(make: Make, admin: Any, schema: str, request_for: Any) -> None:
    approvals = make()
    request = request_for({"amount": 5, "password": "hunter2-long"}, now=approvals.now())
    approvals.put(request, 0.0)
    [row] = admin.execute(f"SELECT request FROM {schema}.fc_approvals").fetchall()
    assert "amount" in row[0] and "hunter2" not in row[0]
    assert approvals.get(request.request_id).request.arguments is None  # type: ignore[union-attr]


# Connections


def test_a_connection_that_the_server_closed_is_replaced(make: Make, admin: Any) -> None:
    approvals = make()
    assert approvals.requests() == []
    drop_connections(admin)
    assert approvals.requests() == []


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_approval_whose_use_got_lost_on_the_way_is_never_used_twice(
    make: Make, proxy: Proxy, request_for: Any, moment: str
) -> None:
    approvals = make(through(proxy))
    request = request_for(now=approvals.now())
    approvals.put(request, 0.0)
    approvals.decide(request.request_id, request.approve("ann"), 0.0)
    left = [moment]
    proxy.watch = lambda data: left.pop() if left and b"COMMIT\0" in data else None
    with pytest.raises(StoreUnavailable, match="cannot be reached or went away"):
        approvals.take(request.request_id, 0.0)
    taken = approvals.take(request.request_id, 0.0)
    assert (taken is not None) == (moment == "before"), "the server had used it up before its answer was lost"
    assert approvals.take(request.request_id, 0.0) is None


def test_a_server_that_says_nothing_is_not_waited_for(make: Make, proxy: Proxy) -> None:
    approvals = make(through(proxy), timeout=0.3)
    assert approvals.requests() == []
    proxy.watch = lambda data: "silent"
    began = time.monotonic()
    with pytest.raises(StoreUnavailable):
        approvals.requests()
    assert time.monotonic() - began < 30
    proxy.watch = lambda data: "heard" if b"fc_approvals" in data else None
    with pytest.raises(StoreUnavailable, match="no answer from the server within 1.3 s"):
        approvals.requests()
    proxy.watch = lambda data: None
    assert approvals.requests() == []


def test_a_call_ends_though_the_approvals_are_silent(make: Make, proxy: Proxy) -> None:
    one = Host(make(through(proxy), timeout=0.3), 0.0, False, 60.0)
    assert one.ask().error_type == "APPROVAL_REQUIRED"
    proxy.watch = lambda data: "silent"
    refused = one.ask()
    assert (refused.error_type, one.ran) == ("RULE_FAILED", 0)
    one.guard.close()


def test_a_stuck_statement_ends_at_the_timeout(make: Make, admin: Any, schema: str, request_for: Any) -> None:
    approvals = make(timeout=0.2)
    request = request_for(now=approvals.now())
    approvals.put(request, 0.0)
    with admin.transaction():
        admin.execute(f"SELECT 1 FROM {schema}.fc_approvals FOR UPDATE")
        with pytest.raises(StoreUnavailable, match="took too long"):
            approvals.decide(request.request_id, request.approve("ann"), 0.0)
    assert approvals.decide(request.request_id, request.approve("ann"), 0.0)


def test_a_use_waits_for_the_disk_also_where_the_server_would_not(make: Make, postgres_server: Any) -> None:
    approvals = make(f"{postgres_server.url}?options=-csynchronous_commit%3Doff")
    shown = approvals._session.run(lambda connection: connection.execute("SHOW synchronous_commit").fetchone())
    assert shown == ("on",)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_usable_after_a_fork(make: Make) -> None:
    approvals = make()
    approvals.add(Grant("tool", None, by="ann", uses=3))
    child = multiprocessing.get_context("fork").Process(target=approvals.use, args=("tool", "1", {}, {}, 0.0))
    child.start()
    child.join(30)
    assert child.exitcode == 0
    assert approvals.use("tool", "1", {}, {}, 0.0) is not None
    assert [left for _, left in approvals.grants()] == [1]


def test_a_server_that_is_not_there_and_an_end(make: Make) -> None:
    with pytest.raises(StoreUnavailable, match="cannot be reached") as caught:
        make("postgresql://postgres:hunter2@127.0.0.1:1/postgres").requests()
    assert "hunter2" not in str(caught.value)
    approvals = make()
    assert approvals.requests() == []
    approvals.close()
    approvals.close()
    with pytest.raises(StoreClosed):
        approvals.requests()


@pytest.mark.parametrize(
    "url", ["", "approvals.db", "sqlite:///a.db", "host=h dbname=d", "postgresql://u:hunter2@h:port/d?x"]
)
def test_other_urls_are_refused_without_being_shown(url: str) -> None:
    with pytest.raises(ConfigurationError, match="postgresql://user@host") as refused:
        PostgresApprovals(url)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("options", [{"schema": ""}, {"timeout": 0}, {"timeout": float("inf")}, {"timeout": "5"}])
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        PostgresApprovals("postgresql://h/d", **options)
