"""The commands that check, keep and close: `verify`, `checkpoint`, `export`, `prune`, `recover` and `resolve`."""

from __future__ import annotations

import json
import sqlite3
import sys
import textwrap
from pathlib import Path

import pytest

from fcguard import Guard, SQLiteStore
from fcguard.telemetry.observer import SilentObserver
from fcguard.testing.store_contract import ask, open_call
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


def test_what_left_since_a_checkpoint_is_told_and_is_a_fault_on_demand(
    shell: Shell, calls: dict[str, str], tmp_path: Path
) -> None:
    before, after = str(tmp_path / "before.json"), str(tmp_path / "after.json")
    assert shell("verify", "--unpruned").code == 2
    shell("checkpoint", "--out", before)
    assert shell("verify", "--against", before, "--unpruned").code == 0
    assert shell("prune", "--older-than", "0s", "--yes").code == 0
    shell("checkpoint", "--out", after)
    told = shell("verify", "--against", before)
    assert (told.code, "pruned (4 since the newest checkpoint)" in told.out) == (0, True)
    assert shell("verify", "--against", before, "--json").json["pruned_since"] == 4
    result = shell("verify", "--against", before, "--unpruned")
    assert (result.code, "is declared as pruned since" in result.out) == (1, True)
    result = shell("verify", "--against", before, "--against", after, "--unpruned")
    assert (result.code, "(0 since the newest checkpoint)" in result.out) == (0, True)


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
    assert [row["request_id"] for row in shell("export", "--calls", "--limit", "1").lines] == [calls["outside"]]
    assert {event["request_id"] for event in shell("export", "--limit", "1").lines} == {calls["outside"]}
    assert {event["request_id"] for event in shell("export", "--open").lines} == {calls["parked"]}
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


def test_prune_keeps_keys_unless_it_is_told_otherwise_and_says_so(shell: Shell, tmp_path: Path) -> None:
    def order() -> tuple[int, bool]:
        sent: list[str] = []
        store = SQLiteStore(tmp_path / "ledger.db")
        with Guard(store=store, evidence_dir=tmp_path / "evidence", observer=SilentObserver()) as guard:

            @guard.tool(name="order", effect="write", business_key=("order_id",))
            def place(order_id: str) -> None:
                sent.append(order_id)

            with guard.task("order", task_id="stable"):
                result = guard.call("order", {"order_id": "A1"})
        return len(sent), result.success

    assert (order(), order()) == ((1, True), (0, True))
    (first, *_) = [row["request_id"] for row in reversed(shell("list", "--json").lines)]
    told = shell("prune", "--older-than", "0s")
    assert "1 key of writes would be kept" in told.out and "would be refused" in told.out
    assert order() == (0, True), "nothing was removed"
    removed = shell("prune", "--older-than", "0s", "--yes")
    assert "; kept 1 key of writes: " in removed.out
    assert order() == (0, False), "it is not sent"
    assert "1 key of pruned writes" in shell("verify").out
    assert shell("verify", "--json").json["tombstones"] == 1
    shown = shell("show", first)
    assert (shown.code, "order  SUCCEEDED, pruned 20" in shown.out) == (0, True)
    assert shell("show", first, "--json").json["pruned"] is True
    assert first not in shell("list").out
    told = shell("prune", "--older-than", "0s", "--with-keys")
    assert "and 1 key of writes: their writes would be sent again" in told.out
    assert order() == (0, False), "nothing was removed"
    removed = shell("prune", "--older-than", "0s", "--with-keys", "--yes", "--json").json
    assert (removed["forgotten"], removed["kept"], removed["removed"]) == (1, 0, True)
    assert order() == (1, True)
    assert shell("show", first).code == 2
    assert "their writes are sent again" in shell("prune", "--older-than", "0s", "--with-keys", "--yes").out
    assert "SENT AGAIN" in shell("prune", "--help", store=False).out


# -- recover, resolve ------------------------------------------------------------------------------------------------------


def test_recover_without_tools_reports_and_ends_with_a_finding(shell: Shell, calls: dict[str, str]) -> None:
    result = shell("recover")
    assert (result.code, calls["parked"] in result.out) == (1, True)
    assert shell("recover", "--json").json["totals"] == {"waits": 1}


def test_recover_asks_about_parked_calls_only_with_an_application(
    shell: Shell, calls: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = shell("recover", "--parked")
    assert (refused.code, "--parked needs --app" in refused.err) == (2, True)
    (tmp_path / "shop_of_test.py").write_text(
        "from pathlib import Path\nfrom tests.cli.ledger_shell import make_guard\n"
        "guard = lambda: make_guard(Path(__file__).parent)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    result = shell("recover", "--parked", "--app", "shop_of_test:guard", "--json", store=False)
    assert (result.code, result.json["totals"]) == (1, {"waits": 1})
    said = shell("show", calls["parked"], "--json").json["confirmations"]
    assert [one["answer"] for one in said] == ["NotApplied", "NotApplied"]


def test_calls_of_other_services_are_a_finding_only_where_nobody_has_tools(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with make_guard(tmp_path) as guard:
        ask(guard.store, open_call(1, tool="ship", lease=0.0))
    result = shell("recover")
    assert (result.code, "not mine: no tool 'ship' is registered" in result.out) == (1, True)
    (tmp_path / "shop_of_stranger.py").write_text(
        "from pathlib import Path\nfrom tests.cli.ledger_shell import make_guard\n"
        "guard = lambda: make_guard(Path(__file__).parent)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    result = shell("recover", "--app", "shop_of_stranger:guard", store=False)
    assert (result.code, "1 not mine" in result.out) == (0, True)


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
    said = ("--by", "Ann", "--reason", "x")
    for flags in ((), ("--applied", "--not-applied"), ("--not-applied", "--applied")):
        refused = shell("resolve", calls["parked"], *flags, *said)
        assert (refused.code, "--applied or --not-applied" in refused.err, refused.out) == (2, True, "")
        assert ("not both" in refused.err) == bool(flags)
    assert [row["state"] for row in shell("list", "--json", "--tool", "create").lines] == ["PARKED"]
    assert shell("resolve", calls["parked"], "--applied", "--by", "Ann").code == 2
    assert shell("resolve", calls["parked"], "--applied", "--by", "", "--reason", "x").code == 2
    data = shell("resolve", calls["parked"], "--applied", "--by", "Ann", "--reason", "x", "--json").json
    assert (data["success"], data["outcome_basis"]) == (True, "operator")


def test_the_recovery_table_is_printed_whole(shell: Shell) -> None:
    result = shell("recovery-table", store=False)
    assert result.code == 0
    assert result.out.splitlines()[0].split()[0] == "class"
    rows = shell("recovery-table", "--json", store=False).lines
    uncertain = {
        "class": "UNCERTAIN",
        "error_type": "*",
        "effect": "write",
        "plan": ["confirm", "stop"],
        "from": "default",
    }
    assert uncertain in rows
    assert {row["from"] for row in rows} == {"default"}


APP = """
    from fcguard import Guard, MemoryStore
    from fcguard.recovery.table import DEFAULT_TABLE

    guard = Guard(store=MemoryStore(), recovery=DEFAULT_TABLE.replacing("TIMEOUT", {"read": ("stop",)}))

    @guard.tool(effect="read", fallback=["query_copy"], recovery={"AVAILABILITY": ("fallback", "stop"), "TIMEOUT": ("retry", "stop")})
    def query(order_id: str) -> str:
        return order_id

    @guard.tool(effect="read")
    def query_copy(order_id: str) -> str:
        return order_id
"""


@pytest.fixture
def own_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "shop_with_own_plans.py").write_text(textwrap.dedent(APP))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "shop_with_own_plans", raising=False)
    return "shop_with_own_plans:guard"


def test_the_table_of_a_guard_says_what_it_changed_and_which_tools_differ(shell: Shell, own_app: str) -> None:
    text = shell("recovery-table", "--app", own_app, store=False).out
    assert "TIMEOUT" in text
    assert "stop (guard)" in text
    assert "Tools with plans of their own: query (AVAILABILITY, TIMEOUT)" in text
    rows = shell("recovery-table", "--app", own_app, "--json", store=False).lines
    assert [row["error_type"] for row in rows if row["from"] == "guard"] == ["TIMEOUT"]


def test_the_table_of_a_tool_says_which_rows_are_overridden_and_where(shell: Shell, own_app: str) -> None:
    text = shell("recovery-table", "--app", own_app, "--tool", "query", store=False)
    assert (text.code, text.out.splitlines()[0]) == (0, "query (read)")
    rows = shell("recovery-table", "--app", own_app, "--tool", "query", "--json", store=False).lines
    told = {row["error_type"]: (row["plan"], row["from"], row["row"]) for row in rows if row["class"] == "AVAILABILITY"}
    assert told == {
        "*": (["fallback", "stop"], "tool", "AVAILABILITY"),
        "CIRCUIT_OPEN": (["fallback", "stop"], "tool", "AVAILABILITY"),
        "TIMEOUT": (["retry", "stop"], "tool", "TIMEOUT"),
    }
    other = shell("recovery-table", "--app", own_app, "--tool", "query_copy", "--json", store=False).lines
    assert {(row["error_type"], row["from"]) for row in other if row["from"] != "default"} == {("TIMEOUT", "guard")}
    assert {(row["tool"], row["effect"]) for row in other} == {("query_copy", "read")}


def test_a_table_of_a_tool_needs_an_application_that_has_it(shell: Shell, own_app: str) -> None:
    nobody = shell("recovery-table", "--app", own_app, "--tool", "qery", store=False)
    assert (nobody.code, "the guard has query, query_copy" in nobody.err) == (2, True)
    nowhere = shell("recovery-table", "--tool", "query", store=False)
    assert (nowhere.code, "--tool needs --app" in nowhere.err) == (2, True)
