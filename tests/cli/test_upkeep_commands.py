"""The commands that check, keep and close: `verify`, `checkpoint`, `export`, `prune`, `recover` and `resolve`."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from tests.cli.ledger_shell import Shell, make_guard

# -- verify, checkpoint, export, prune -------------------------------------------------------------------------------------


def test_verify_passes_an_honest_ledger(shell: Shell, calls: dict[str, str]) -> None:
    result = shell("verify")
    assert (result.code, result.out.startswith("all hold: ")) == (0, True)
    assert shell("verify", "--json").json["ok"] is True


def test_verify_names_the_record_that_was_changed(shell: Shell, calls: dict[str, str], tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(
            "UPDATE fc_events SET payload = replace(payload, 'A1', 'A9') WHERE request_id = ?", (calls["read"],)
        )
    connection.close()
    result = shell("verify")
    assert (result.code, calls["read"] in result.out) == (1, True)
    assert shell("verify", "--json").json["ok"] is False


def test_a_ledger_that_was_begun_anew_shows_against_a_checkpoint(
    shell: Shell, calls: dict[str, str], tmp_path: Path
) -> None:
    kept = tmp_path / "kept.json"
    assert shell("checkpoint", "--out", str(kept)).code == 0
    assert shell("verify", "--against", str(kept)).code == 0
    assert shell("checkpoint").json["heads"] == json.loads(kept.read_text())["heads"]
    for path in tmp_path.glob("ledger.db*"):
        path.unlink()
    with make_guard(tmp_path) as guard:
        guard.call("look", {"order_id": "A1"})
    result = shell("verify", "--against", str(kept))
    assert (result.code, "DOES NOT HOLD" in result.out) == (1, True)


def test_a_checkpoint_is_signed_and_checked(shell: Shell, calls: dict[str, str], tmp_path: Path) -> None:
    signing = pytest.importorskip("fcguard.stores.signing")
    private, public = signing.make_key()
    (tmp_path / "private.pem").write_bytes(private)
    (tmp_path / "public.pem").write_bytes(public)
    kept = tmp_path / "kept.json"
    assert shell("checkpoint", "--out", str(kept), "--sign", str(tmp_path / "private.pem")).code == 0
    against = ("verify", "--against", str(kept), "--public-key", str(tmp_path / "public.pem"))
    assert shell(*against).code == 0
    kept.write_text(kept.read_text().replace('"at": ', '"at": 1'))
    assert shell(*against).code == 3


def test_a_public_key_alone_checks_nothing(shell: Shell, calls: dict[str, str], tmp_path: Path) -> None:
    assert shell("verify", "--public-key", str(tmp_path / "x")).code == 2
    assert shell("verify", "--against", str(tmp_path / "missing")).code == 3


def test_export_holds_the_very_bytes_that_are_hashed(shell: Shell, calls: dict[str, str], tmp_path: Path) -> None:
    from fcguard.stores.chain import GENESIS, link

    lines = shell("export", "--task", "T").out.splitlines()
    before = GENESIS
    for line in lines:
        event = json.loads(line)
        payload = line[line.index('"payload": ') + 11 : -1].encode()
        before = link(before, event["seq"], payload)
        assert before.hex() == event["hash"]
    assert len(lines) >= 5


def test_export_narrows(shell: Shell, calls: dict[str, str]) -> None:
    assert {event["request_id"] for event in shell("export", "--tool", "create").lines} == {calls["parked"]}
    assert {row["request_id"] for row in shell("export", "--calls", "--state", "REJECTED").lines} == {calls["refused"]}


def test_prune_tells_before_it_removes(shell: Shell, calls: dict[str, str]) -> None:
    assert "0 calls ended before" in shell("prune", "--older-than", "1d").out
    told = shell("prune", "--older-than", "0s", "--json").json
    assert (told["removed"], told["calls"]) == (False, 4)
    assert len(shell("list", "--json").lines) == 5
    removed = shell("prune", "--older-than", "0s", "--yes")
    assert (removed.code, removed.out.startswith("removed 4 calls")) == (0, True)
    assert [row["request_id"] for row in shell("list", "--json").lines] == [calls["parked"]]
    assert "pruned" in shell("verify").out
    assert shell("prune", "--older-than", "long").code == 2


# -- recover, resolve ------------------------------------------------------------------------------------------------------


def test_recover_without_tools_reports_and_ends_with_a_finding(shell: Shell, calls: dict[str, str]) -> None:
    result = shell("recover")
    assert (result.code, calls["parked"] in result.out) == (1, True)
    assert shell("recover", "--json").json["totals"] == {"waits": 1}


def test_recover_of_a_ledger_without_open_calls_is_well(shell: Shell, tmp_path: Path) -> None:
    with make_guard(tmp_path) as guard:
        guard.call("look", {"order_id": "A1"})
    result = shell("recover", "--wait", "0")
    assert (result.code, result.out) == (0, "open calls: 0\n")


@pytest.mark.parametrize(("flag", "state"), [("--applied", "SUCCEEDED"), ("--not-applied", "FAILED")])
def test_resolve_closes_a_parked_call(shell: Shell, calls: dict[str, str], flag: str, state: str) -> None:
    result = shell("resolve", calls["parked"], flag, "--by", "Ann", "--reason", "looked")
    assert (result.code, state in result.out) == (0, True)
    assert [row["state"] for row in shell("list", "--json", "--tool", "create").lines] == [state]
    assert shell("resolve", calls["parked"], flag, "--by", "Ann", "--reason", "again").code == 2


def test_resolve_needs_a_decision_a_name_and_a_reason(shell: Shell, calls: dict[str, str]) -> None:
    assert "--applied or --not-applied" in shell("resolve", calls["parked"], "--by", "Ann", "--reason", "x").err
    assert shell("resolve", calls["parked"], "--applied", "--by", "Ann").code == 2
    assert shell("resolve", calls["parked"], "--applied", "--by", "", "--reason", "x").code == 2
    data = shell("resolve", calls["parked"], "--applied", "--by", "Ann", "--reason", "x", "--json").json
    assert (data["success"], data["outcome_basis"]) == (True, "operator")


def test_the_recovery_table_is_printed_whole(shell: Shell) -> None:
    result = shell("recovery-table", store=False)
    assert result.code == 0
    assert result.out.splitlines()[0].split()[0] == "class"
    rows = shell("recovery-table", "--json", store=False).lines
    assert {"class": "UNCERTAIN", "error_type": "*", "effect": "write", "plan": ["confirm", "stop"]} in rows
