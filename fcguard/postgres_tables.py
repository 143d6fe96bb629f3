"""The tables that lie beside a ledger in PostgreSQL, those of approvals and of constraints, and who may do what with them."""

from __future__ import annotations

from typing import Any, Final, LiteralString

from fcguard.errors import MissingExtraError, StoreTooNew, StoreUnavailable

try:
    import psycopg
    from psycopg import sql
except ImportError as error:  # pragma: no cover - the tests install it
    raise MissingExtraError("psycopg", "postgres") from error

__all__ = ["APPROVALS_VERSION", "grant_beside", "make_beside", "make_state", "migrate_approvals", "only_asks"]

_STATE: Final = """
CREATE TABLE IF NOT EXISTS {table} (
  key text COLLATE "C" PRIMARY KEY, value text NOT NULL, changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50)
"""
"""What constraints keep; see `fcguard.constraints.postgres_state.PostgresState`."""

_V1: Final[tuple[LiteralString, ...]] = (
    "CREATE TABLE {schema}.fc_approval_version (version integer NOT NULL)",
    "INSERT INTO {schema}.fc_approval_version VALUES (0)",
    """
    CREATE TABLE {schema}.fc_approvals (
      seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, request_id text COLLATE "C" NOT NULL UNIQUE,
      subject text COLLATE "C" NOT NULL, state text NOT NULL DEFAULT 'pending', expires_at float8 NOT NULL,
      request text NOT NULL, decision text, decided_at float8,
      CHECK (state IN ('pending', 'approved', 'denied', 'used')), CHECK ((state = 'pending') = (decision IS NULL))
    )
    """,
    "CREATE INDEX fc_approvals_subject ON {schema}.fc_approvals (subject) WHERE state <> 'used'",
    "CREATE INDEX fc_approvals_state ON {schema}.fc_approvals (state, seq)",
    """
    CREATE TABLE {schema}.fc_grants (
      seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, grant_id text COLLATE "C" NOT NULL UNIQUE, tool text NOT NULL,
      uses_left bigint NOT NULL CHECK (uses_left >= 0), body text NOT NULL
    )
    """,
    "CREATE INDEX fc_grants_tool ON {schema}.fc_grants (tool)",
    """
    CREATE FUNCTION {schema}.fc_approvals_go_forward() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF (NEW.seq, NEW.request_id, NEW.subject, NEW.expires_at, NEW.request)
         IS DISTINCT FROM (OLD.seq, OLD.request_id, OLD.subject, OLD.expires_at, OLD.request)
         OR NOT (OLD.state = 'pending' AND NEW.state IN ('approved', 'denied') OR OLD.state = 'approved' AND NEW.state = 'used')
         OR OLD.decision IS NOT NULL AND NEW.decision IS DISTINCT FROM OLD.decision THEN
        RAISE EXCEPTION 'fcguard: a request is decided once and used once';
      END IF;
      RETURN NEW;
    END $$
    """,
    """
    CREATE TRIGGER fc_approvals_forward BEFORE UPDATE ON {schema}.fc_approvals
    FOR EACH ROW EXECUTE FUNCTION {schema}.fc_approvals_go_forward()
    """,
    """
    CREATE FUNCTION {schema}.fc_grants_go_down() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF (NEW.seq, NEW.grant_id, NEW.tool, NEW.body) IS DISTINCT FROM (OLD.seq, OLD.grant_id, OLD.tool, OLD.body)
         OR NEW.uses_left >= OLD.uses_left THEN
        RAISE EXCEPTION 'fcguard: a grant is only used up; add another one';
      END IF;
      RETURN NEW;
    END $$
    """,
    """
    CREATE TRIGGER fc_grants_down BEFORE UPDATE ON {schema}.fc_grants
    FOR EACH ROW EXECUTE FUNCTION {schema}.fc_grants_go_down()
    """,
)

_MIGRATIONS: Final[tuple[tuple[LiteralString, ...], ...]] = (_V1,)
"""Statements `n` bring the tables of approvals from version `n` to `n + 1`. Only ever appended to."""

APPROVALS_VERSION: Final = len(_MIGRATIONS)

_DECIDING: Final[dict[str, LiteralString]] = {
    "fc_state": "SELECT, INSERT, UPDATE, DELETE",
    "fc_approval_version": "SELECT",
    "fc_approvals": "SELECT, INSERT, UPDATE, DELETE",
    "fc_grants": "SELECT, INSERT, UPDATE, DELETE",
}
_ASKING: Final[dict[str, LiteralString]] = {
    **_DECIDING,
    "fc_approvals": "SELECT, INSERT (request_id, subject, expires_at, request), UPDATE (state)",
    "fc_grants": "SELECT, UPDATE (uses_left)",
}
"""Without the decision, a request stays pending (a check of the table); so who asks cannot say yes, only use a yes up."""


def migrate_approvals(connection: psycopg.Connection[Any], name: str, schema: str, *, create: bool = True) -> None:
    """Make the tables of approvals or bring them to this version; one process at a time, the others wait.

    Args:
        connection: in autocommit mode.
        name: what messages call the database.
        schema: schema of the tables; made if it is missing.
        create: whether missing tables are made; else that is an error.

    Raises:
        StoreTooNew: a newer fcguard made them.
        StoreUnavailable: they are missing and not to be made.
        psycopg.Error: the server failed, or the role may not make them.
    """
    version = _version(connection, schema)
    if version == 0 and not create:
        raise StoreUnavailable(f"{name} holds no approvals; give the URL that PostgresApprovals(url) was given")
    if version == APPROVALS_VERSION:
        return
    with connection.transaction():
        _lock(connection, schema)
        version = _version(connection, schema)
        if version > APPROVALS_VERSION:
            raise StoreTooNew(
                f"{name} has approvals of version {version}, this fcguard knows up to {APPROVALS_VERSION}; upgrade fcguard"
            )
        for statements in _MIGRATIONS[version:]:
            for statement in statements:
                connection.execute(_in(schema, statement))
        reached = sql.SQL("UPDATE {table} SET version = {version}")
        table = sql.Identifier(schema, "fc_approval_version")
        connection.execute(reached.format(table=table, version=sql.Literal(APPROVALS_VERSION)))


def make_beside(connection: psycopg.Connection[Any], name: str, schema: str) -> None:
    """Make what lies beside the ledger and is missing, so that rights to it can be given; see `migrate_approvals`."""
    migrate_approvals(connection, name, schema)
    make_state(connection, schema)


def make_state(connection: psycopg.Connection[Any], schema: str) -> None:
    """Make the table of what constraints keep, and its schema, if they are missing.

    Args:
        connection: in autocommit mode.
        schema: schema of the table.

    Raises:
        psycopg.Error: the server failed, or the role may not make it.
    """
    table = sql.Identifier(schema, "fc_state")
    if not _exists(connection, "to_regclass(%s)", table.as_string(None)):
        with connection.transaction():
            _lock(connection, schema)
            connection.execute(sql.SQL(_STATE).format(table=table))


def grant_beside(connection: psycopg.Connection[Any], role: str, schema: str, *, decides: bool) -> None:
    """Give a role its rights to the tables beside the ledger, and take those away that it had before.

    Args:
        connection: of the role that owns the tables.
        role: who gets them.
        schema: schema of the tables.
        decides: whether the role may decide about requests and add and revoke grants, or only ask and use.
    """
    for table, rights in (_DECIDING if decides else _ASKING).items():
        names = {"table": sql.Identifier(schema, table), "role": sql.Identifier(role)}
        connection.execute(sql.SQL("REVOKE ALL ON {table} FROM {role}").format(**names))
        connection.execute(sql.SQL("GRANT {rights} ON {table} TO {role}").format(rights=sql.SQL(rights), **names))


def only_asks(connection: psycopg.Connection[Any], role: str, schema: str) -> bool:
    """Answer whether a role was given the rights to ask for approval, and none to decide.

    Args:
        connection: to a database in which the tables of approvals are.
        role: whose rights.
        schema: schema of the tables.
    """
    table = sql.Identifier(schema, "fc_approvals").as_string(None)
    row = connection.execute(
        "SELECT has_any_column_privilege(%s, %s, 'INSERT') AND NOT has_column_privilege(%s, %s, 'decision', 'UPDATE')",
        (role, table) * 2,
    ).fetchone()
    return row is not None and bool(row[0])


def _lock(connection: psycopg.Connection[Any], schema: str) -> None:
    """Take the lock that the ledger takes as well, so that only one at a time makes the schema; and make it."""
    connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"fcguard.migrate.{schema}",))
    if not _exists(connection, "to_regnamespace(%s)", sql.Identifier(schema).as_string(None)):
        connection.execute(_in(schema, "CREATE SCHEMA {schema}"))


def _version(connection: psycopg.Connection[Any], schema: str) -> int:
    table = sql.Identifier(schema, "fc_approval_version").as_string(None)
    if not _exists(connection, "to_regclass(%s)", table):
        return 0
    row = connection.execute(_in(schema, "SELECT version FROM {schema}.fc_approval_version")).fetchone()
    return 0 if row is None else int(row[0])


def _exists(connection: psycopg.Connection[Any], function: LiteralString, name: str) -> bool:
    row = connection.execute("SELECT " + function + " IS NOT NULL", (name,)).fetchone()
    return row is not None and bool(row[0])


def _in(schema: str, statement: LiteralString) -> sql.Composed:
    return sql.SQL(statement).format(schema=sql.Identifier(schema))
