"""A whole ledger is checked: chains, rows, checkpoints and their signatures."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fcguard.errors import StoreCorrupt, StoreError
from fcguard.model.states import CallState
from fcguard.stores.audit import audit
from fcguard.stores.base import Head
from fcguard.stores.checkpoint import Checkpoint, read_checkpoint, take_checkpoint, write_checkpoint
from fcguard.stores.memory import MemoryStore
from fcguard.stores.sqlite import SQLiteStore
from fcguard.testing.store_contract import ask, enter, move, note, open_call

signing = pytest.importorskip("fcguard.stores.signing")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStore]:
    made = SQLiteStore(path)
    ask(made, open_call(1))
    ask(made, move(1, 1, CallState.UNCERTAIN, next_at=0.0))
    made.claim()
    ask(made, enter(2))
    ask(made, open_call(3, task_id="other"))
    ask(made, move(3, 1, CallState.SUCCEEDED, result={"data": 3}))
    ask(made, note(3))
    yield made
    made.close()


def _tamper(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("DROP TRIGGER fc_events_no_update")
    connection.execute("DROP TRIGGER fc_events_no_delete")
    for statement in statements:
        connection.execute(statement)
    connection.close()


def _found(store: SQLiteStore, *checkpoints: Checkpoint) -> str:
    verification = audit(store, checkpoints)
    assert verification.fault is not None
    assert not verification.ok
    return str(verification.fault)


def test_a_ledger_in_use_is_whole(store: SQLiteStore) -> None:
    verification = audit(store)
    assert (verification.fault, verification.events, verification.tasks) == (None, 7, 2)
    store.prune(before=1e12)
    assert audit(store).ok


def test_a_memory_ledger_is_checked_too() -> None:
    store = MemoryStore(max_calls=3)
    for number in range(10):
        ask(store, enter(number))
    assert audit(store).pruned == 7
    assert audit(store).ok


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE fc_events SET payload = CAST(replace(payload, 'A1', 'A9') AS BLOB) WHERE seq = 1", "task 'task', event 1"),
        ("UPDATE fc_events SET payload = CAST(payload AS TEXT) WHERE seq = 1", "of the wrong kind"),
        ("UPDATE fc_events SET hash = 5 WHERE seq = 1", "of the wrong kind"),
        ("UPDATE fc_events SET seq = 'x' WHERE seq = 3", "event 3"),
        ("UPDATE fc_events SET at = 'x' WHERE seq = 1", "column at says 'x'"),
        ("UPDATE fc_events SET kind = 'x' WHERE task = 2 AND seq = 2", "task 'other', event 2"),
        ("UPDATE fc_events SET hash = zeroblob(32) WHERE task = 1 AND seq = 2", "task 'task', event 2"),
        ("DELETE FROM fc_events WHERE task = 1 AND seq = 2", "task 'task', event 2: is missing; event 3 follows"),
        ("DELETE FROM fc_events WHERE task = 2 AND seq = 3", "task 'other', event 3: is missing"),
        ("DELETE FROM fc_events WHERE task = 2", "task 'other', event 1: is missing"),
        ("UPDATE fc_calls SET state = 'FAILED' WHERE request_id LIKE '%2'", "row says state 'FAILED', its events say 'SUC"),
        ("UPDATE fc_calls SET version = 9 WHERE request_id LIKE '%3'", "the row says version 9"),
        ("UPDATE fc_calls SET attempt = 5 WHERE request_id LIKE '%1'", "the row says attempt 5"),
        ("UPDATE fc_calls SET last_seq = 1 WHERE request_id LIKE '%3'", "the row says state 'SUCCEEDED'"),
        ("UPDATE fc_calls SET last_seq = 99 WHERE request_id LIKE '%3'", "the row of the call has no such events"),
        ("UPDATE fc_calls SET last_seq = 4 WHERE request_id LIKE '%1'", "the row of the call has no such events"),
        ("DELETE FROM fc_calls WHERE request_id LIKE '%2'", "task 'task', event 4 of call 'fc-20260130-000002': the call has"),
        ("INSERT INTO fc_gaps VALUES (1, 2, 2, x'00')", "task 'task', event 3"),
    ],
)  # fmt: skip
def test_what_was_changed_in_the_file_is_named(path: Path, store: SQLiteStore, statement: str, expected: str) -> None:
    _tamper(path, statement)
    assert expected in _found(store)


def test_rows_can_be_left_out(path: Path, store: SQLiteStore) -> None:
    _tamper(path, "UPDATE fc_calls SET version = 9")
    assert audit(store, rows=False).ok


def test_a_ledger_cut_off_with_its_heads_shows_against_a_checkpoint(path: Path, store: SQLiteStore) -> None:
    checkpoint = take_checkpoint(store, time.time())
    _tamper(
        path,
        "DELETE FROM fc_events WHERE task = 2",
        "DELETE FROM fc_calls WHERE task = 2",
        "DELETE FROM fc_heads WHERE task = 2",
    )
    with pytest.raises(StoreCorrupt, match="lacks records that were acknowledged"):
        audit(store)
    Path(f"{path}-lock").write_bytes(b"")  # whoever cuts the ledger off can also wipe out how far it had come
    assert audit(store).ok, "in itself the shorter ledger is whole"
    assert _found(store, checkpoint) == "task 'other', event 1: is missing; the chain is known to reach 3"


def test_a_ledger_that_grew_holds_against_old_checkpoints(store: SQLiteStore) -> None:
    first = take_checkpoint(store, 1.0)
    ask(store, enter(8))
    second = take_checkpoint(store, 2.0)
    ask(store, enter(9))
    assert audit(store, [first, second]).ok


def test_checkpoints_that_contradict_each_other_are_named(store: SQLiteStore) -> None:
    good = take_checkpoint(store, 1.0)
    bad = Checkpoint(1.0, (Head("task", 4, bytes(32)),))
    assert "contradict" in _found(store, good, bad)
    assert "contradict" in str(audit(MemoryStore(), [good, bad]).fault)


def test_a_checkpoint_is_read_as_it_was_written(store: SQLiteStore) -> None:
    checkpoint = take_checkpoint(store, 123.5)
    assert [head.task_id for head in checkpoint.heads] == ["other", "task"]
    assert read_checkpoint(write_checkpoint(checkpoint)) == checkpoint
    private, public = signing.make_key()
    signed = signing.sign(checkpoint, private)
    again = read_checkpoint(write_checkpoint(signed))
    assert again == signed
    signing.check_signature(again, public)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "cannot be read as JSON"),
        (b"[]", "no checkpoint of the format"),
        (b'{"format":"fcguard.checkpoint.v2"}', "no checkpoint of the format"),
        (b'{"format":"fcguard.checkpoint.v1"}', "not whole"),
        (b'{"format":"fcguard.checkpoint.v1","at":1,"heads":[{"task_id":"a","seq":"x","hash":""}]}', "not whole"),
        (b'{"format":"fcguard.checkpoint.v1","at":1,"heads":[],"signature":{"a":1}}', "not whole"),
    ],
)
def test_what_is_no_checkpoint_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(StoreError, match=reason):
        read_checkpoint(data)


def test_a_signature_proves_who_and_what(store: SQLiteStore) -> None:
    private, public = signing.make_key()
    _, stranger = signing.make_key()
    checkpoint = take_checkpoint(store, 1.0)
    signed = signing.sign(checkpoint, private)
    with pytest.raises(StoreError, match="not signed"):
        signing.check_signature(checkpoint, public)
    with pytest.raises(StoreError, match="another key"):
        signing.check_signature(signed, stranger)
    for changed in (
        dataclasses.replace(signed, at=2.0),
        dataclasses.replace(signed, heads=signed.heads[1:]),
        dataclasses.replace(signed, signature=dataclasses.replace(signed.signature, value="00" * 64)),
        dataclasses.replace(signed, signature=dataclasses.replace(signed.signature, value="zz")),
    ):
        with pytest.raises(StoreError, match="was changed after it was signed"):
            signing.check_signature(changed, public)


def test_keys_that_will_not_do_are_refused(store: SQLiteStore) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    checkpoint = take_checkpoint(store, 1.0)
    with pytest.raises(StoreError, match="cannot be read"):
        signing.sign(checkpoint, b"not a key")
    with pytest.raises(StoreError, match="cannot be read"):
        signing.check_signature(checkpoint, b"not a key")
    other: Any = ec.generate_private_key(ec.SECP256R1())
    pem = other.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with pytest.raises(StoreError, match="not an Ed25519 key"):
        signing.sign(checkpoint, pem)
    public = other.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    with pytest.raises(StoreError, match="not an Ed25519 key"):
        signing.check_signature(checkpoint, public)


def test_a_checkpoint_is_plain_json(store: SQLiteStore) -> None:
    fields = json.loads(write_checkpoint(take_checkpoint(store, 5.0)))
    assert (fields["format"], fields["at"]) == ("fcguard.checkpoint.v1", 5.0)
    assert {head["task_id"]: head["seq"] for head in fields["heads"]} == {"task": 4, "other": 3}
