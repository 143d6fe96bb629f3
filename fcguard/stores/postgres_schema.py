"""The tables of the PostgreSQL ledger, its numbered migrations, and the rights of the role that writes to it."""

from __future__ import annotations

from typing import Any, Final

from fcguard.errors import MissingExtraError, StoreError, StoreTooNew, StoreUnavailable
from fcguard.postgres_connection import advice_for, one_line
from fcguard.postgres_tables import grant_beside, make_beside, only_asks

try:
    import psycopg
    from psycopg import sql
except ImportError as error:
    raise MissingExtraError("psycopg", "postgres") from error

__all__ = ["MIGRATIONS", "SCHEMA_VERSION", "check", "grant", "migrate", "translate"]

_V1: Final = (
    "CREATE TABLE fc_meta (key text PRIMARY KEY, value text NOT NULL)",
    """
    CREATE TABLE fc_heads (
      task bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, task_id text COLLATE "C" NOT NULL UNIQUE, seq bigint NOT NULL,
      hash bytea NOT NULL
    ) WITH (fillfactor = 50)
    """,
    """
    CREATE TABLE fc_gaps (
      task bigint NOT NULL, first bigint NOT NULL, last bigint NOT NULL, hash bytea NOT NULL, PRIMARY KEY (task, first)
    )
    """,
    """
    CREATE TABLE fc_calls (
      request_id text COLLATE "C" PRIMARY KEY, task bigint NOT NULL, tool text NOT NULL, state text NOT NULL,
      version bigint NOT NULL, attempt bigint NOT NULL, created_at float8 NOT NULL, updated_at float8 NOT NULL,
      first_seq bigint NOT NULL, last_seq bigint NOT NULL, result_seq bigint, is_entered boolean NOT NULL,
      is_open boolean NOT NULL, holds_key boolean NOT NULL, owner text, lease_until float8, next_at float8,
      settle_until float8, idempotency_scope text, idempotency_key text, effect_key text
    ) WITH (fillfactor = 80)
    """,
    "CREATE INDEX fc_calls_open ON fc_calls (request_id) WHERE is_open",
    """
    CREATE UNIQUE INDEX fc_calls_key ON fc_calls (idempotency_scope, idempotency_key)
    WHERE holds_key AND idempotency_key IS NOT NULL
    """,
    "CREATE UNIQUE INDEX fc_calls_effect ON fc_calls (effect_key) WHERE is_open AND effect_key IS NOT NULL",
    """
    CREATE TABLE fc_events (
      task bigint NOT NULL, seq bigint NOT NULL, request_id text NOT NULL, kind text NOT NULL, at float8 NOT NULL,
      back bigint, payload bytea NOT NULL, hash bytea NOT NULL, PRIMARY KEY (task, seq)
    )
    """,
    "CREATE TABLE fc_blobs (digest text PRIMARY KEY, kind text NOT NULL, body bytea NOT NULL, created_at float8 NOT NULL)",
    """
    CREATE TABLE fc_owners (
      id text PRIMARY KEY, host text NOT NULL, boot text NOT NULL, pid bigint NOT NULL, started bigint NOT NULL,
      seen_at float8 NOT NULL, ended_at float8
    )
    """,
    """
    CREATE FUNCTION fc_events_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF TG_OP = 'DELETE' AND current_setting('fcguard.pruning', true) = 'on' THEN
        RETURN OLD;
      END IF;
      RAISE EXCEPTION 'fcguard: events are append-only';
    END $$
    """,
    """
    CREATE TRIGGER fc_events_no_change BEFORE UPDATE OR DELETE ON fc_events
    FOR EACH ROW EXECUTE FUNCTION fc_events_append_only()
    """,
    """
    CREATE TRIGGER fc_events_no_truncate BEFORE TRUNCATE ON fc_events
    FOR EACH STATEMENT EXECUTE FUNCTION fc_events_append_only()
    """,
)

_V2: Final = (
    """
    CREATE TABLE fc_tombstones (
      idempotency_scope text NOT NULL, idempotency_key text NOT NULL, digest text NOT NULL,
      request_id text COLLATE "C" NOT NULL UNIQUE, task bigint NOT NULL, tool text NOT NULL, state text NOT NULL,
      ended_at float8 NOT NULL, pruned_at float8 NOT NULL, seal bytea NOT NULL,
      PRIMARY KEY (idempotency_scope, idempotency_key)
    )
    """,
    """
    CREATE FUNCTION fc_tombstones_stay() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF TG_OP = 'DELETE' AND current_setting('fcguard.pruning', true) = 'on' THEN
        RETURN OLD;
      END IF;
      RAISE EXCEPTION 'fcguard: keys of pruned writes stay as they are';
    END $$
    """,
    """
    CREATE TRIGGER fc_tombstones_no_change BEFORE UPDATE OR DELETE ON fc_tombstones
    FOR EACH ROW EXECUTE FUNCTION fc_tombstones_stay()
    """,
    """
    CREATE TRIGGER fc_tombstones_no_truncate BEFORE TRUNCATE ON fc_tombstones
    FOR EACH STATEMENT EXECUTE FUNCTION fc_tombstones_stay()
    """,
    # Whoever makes the new table, it belongs to the owner of the ledger. Roles that were granted the ledger before must be able to
    # read it, or they could write no intent any more.
    """
    DO $$
    DECLARE reader text;
    BEGIN
      EXECUTE (SELECT format('ALTER TABLE fc_tombstones OWNER TO %I', tableowner) FROM pg_tables
        WHERE schemaname = current_schema() AND tablename = 'fc_heads');
      FOR reader IN SELECT DISTINCT grantee FROM information_schema.role_table_grants
        WHERE table_schema = current_schema() AND table_name = 'fc_heads' AND privilege_type = 'SELECT'
      LOOP
        EXECUTE 'GRANT SELECT ON fc_tombstones TO ' || CASE reader WHEN 'PUBLIC' THEN reader ELSE quote_ident(reader) END;
      END LOOP;
    END $$
    """,
)

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (_V1, _V2)
"""Statements `n` bring a ledger from version `n` to `n + 1`. Only ever appended to."""

SCHEMA_VERSION: Final = len(MIGRATIONS)

_RIGHTS: Final = {
    "fc_events": "SELECT, INSERT",
    "fc_calls": "SELECT, INSERT, UPDATE",
    "fc_heads": "SELECT, INSERT, UPDATE",
    "fc_owners": "SELECT, INSERT, UPDATE, DELETE",
    "fc_blobs": "SELECT, INSERT, DELETE",
    "fc_gaps": "SELECT",
    "fc_tombstones": "SELECT",
    "fc_meta": "SELECT",
}
"""What the role of an application may do. It cannot change or remove an event, nor prune."""


def translate(error: psycopg.Error, name: str, *, reading: bool = False) -> StoreError:
    """Turn an error of PostgreSQL, at a record or at reading, into one of the library's, that says what to do."""
    text = one_line(error)
    what = "cannot be read" if reading else "did not take the record"
    result: StoreError
    advice = advice_for(error)
    if advice is not None:
        result = StoreUnavailable(f"the ledger {name!r} {what}: {advice} ({text})")
    else:
        result = StoreError(f"the ledger {name!r} failed: {type(error).__name__}: {text}")
    result.__cause__ = error
    return result


def check(connection: psycopg.Connection[Any], name: str, *, allow_lost_commits: bool) -> None:
    """Refuse a server on which an answered commit can be lost or on which nothing can be written.

    Raises:
        StoreUnavailable: `synchronous_commit` or `fsync` is off and that was not accepted, or the server is a standby.
    """
    row = connection.execute(
        "SELECT current_setting('synchronous_commit'), current_setting('fsync'), pg_is_in_recovery()"
    ).fetchone()
    assert row is not None
    synchronous_commit, fsync, is_standby = row
    if is_standby:
        raise StoreUnavailable(f"the ledger {name!r} is on a standby, which is read-only; connect to the primary")
    if not allow_lost_commits and (synchronous_commit == "off" or fsync == "off"):
        raise StoreUnavailable(
            f"the ledger {name!r} would lose answered records at a crash: synchronous_commit={synchronous_commit}, "
            f"fsync={fsync}; switch both on, or accept the loss with allow_lost_commits=True"
        )


def migrate(connection: psycopg.Connection[Any], name: str, schema: str, *, create: bool = True) -> None:
    """Create the tables or bring them to this version; one process at a time, the others wait.

    Args:
        connection: with the schema in its search path.
        name: what messages call the ledger.
        schema: schema of the tables.
        create: whether anything is made or changed; else what is missing or older is an error.

    Raises:
        StoreTooNew: a newer fcguard made the tables.
        StoreUnavailable: they are missing or older, and not to be made.
        psycopg.Error: the server failed, or the role may not create tables.
    """
    version = _version(connection, schema)
    if version == SCHEMA_VERSION:
        return
    if not create and version == 0:
        raise StoreUnavailable(
            f"there is no ledger in {name!r} (no tables in the schema {schema!r}); check the host and the database of the URL"
        )
    if not create and version < SCHEMA_VERSION:
        raise StoreUnavailable(
            f"the ledger {name!r} has schema {version}, and this fcguard needs {SCHEMA_VERSION}; let the owner of its tables bring it "
            "up to date: with fcguard.stores.postgres.grant, or by starting the application in that role"
        )
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"fcguard.migrate.{schema}",))
        version = _version(connection, schema)
        if version > SCHEMA_VERSION:
            raise StoreTooNew(
                f"the ledger {name!r} has schema {version}, this fcguard knows {SCHEMA_VERSION}; upgrade fcguard to read it"
            )
        if version == 0:
            connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
        for statements in MIGRATIONS[version:]:
            for statement in statements:
                connection.execute(statement.encode())
        connection.execute(
            "INSERT INTO fc_meta VALUES ('schema', %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (str(SCHEMA_VERSION),),
        )


def _version(connection: psycopg.Connection[Any], schema: str) -> int:
    row = connection.execute("SELECT to_regclass(quote_ident(%s) || '.fc_meta') IS NOT NULL", (schema,)).fetchone()
    if row is None or not row[0]:
        return 0
    row = connection.execute("SELECT value FROM fc_meta WHERE key = 'schema'").fetchone()
    return 0 if row is None else int(row[0])


def grant(
    connection: psycopg.Connection[Any], role: str, schema: str = "fcguard", *, decides: bool | None = None
) -> None:
    """Give a role what an application needs, and nothing with which it could change what it wrote.

    It covers the ledger, approvals (`PostgresApprovals`) and what constraints share (`PostgresState`). Tables that are missing are
    made, and those of an older fcguard brought up to date, which the role itself may not do: so run it again after an update. All of
    it is one transaction. With another `decides`, it changes the rights to what is said now.

    Args:
        connection: of the role that owns the tables, or may make them. In a transaction of yours, you commit.
        role: name of the application's role.
        schema: schema of the ledger.
        decides: whether the role may decide about approval requests and add grants, which `Guard.resume` and `fcguard approvals`
            need. False: it may only ask, and use up what others approved. None: as it is; a role without rights to approvals gets
            those to decide.

    Raises:
        StoreTooNew: a newer fcguard made the tables.
        psycopg.Error: the server failed, or the connection's role may not do it.
    """
    with connection.transaction():
        row = connection.execute("SELECT current_setting('search_path')").fetchone()
        assert row is not None
        connection.execute(sql.SQL("SET LOCAL search_path TO {}").format(sql.Identifier(schema)))
        migrate(connection, schema, schema)
        make_beside(connection, f"the schema {schema!r}", schema)
        names = {"schema": sql.Identifier(schema), "role": sql.Identifier(role)}
        connection.execute(sql.SQL("GRANT USAGE ON SCHEMA {schema} TO {role}").format(**names))
        for table, rights in _RIGHTS.items():
            statement = sql.SQL("GRANT {rights} ON {schema}.{table} TO {role}")
            connection.execute(statement.format(rights=sql.SQL(rights), table=sql.Identifier(table), **names))
        grant_beside(
            connection, role, schema, decides=not only_asks(connection, role, schema) if decides is None else decides
        )
        connection.execute("SELECT set_config('search_path', %s, true)", row)  # of a transaction of the caller's
