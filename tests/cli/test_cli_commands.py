"""The `fcguard` command on real ledgers: what it prints for people and programs, and its exit codes."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from fcguard import Applied, Environment, Guard, NotApplied, SQLiteStore
from fcguard.cli.main import app
from fcguard.model.states import CallState
from fcguard.stores.base import Event, Move
from fcguard.telemetry.observer import SilentObserver
from fcguard.testing.store_contract import ask

_ROOT = Path(__file__).resolve().parents[2]


class Result:
    """What one run of the command left."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class Shell:
    """Runs `fcguard` in this process, in a directory with a ledger `ledger.db`."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys
        self.url = f"sqlite:///{folder / 'ledger.db'}"

    def __call__(self, *arguments: str, store: bool = True) -> Result:
        with pytest.raises(SystemExit) as ended:
            app([*arguments, *(("--store", self.url) if store else ())])
        out, err = self._capsys.readouterr()
        return Result(int(ended.value.code or 0), out, err)


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path, capsys)


def make_guard(folder: Path) -> Guard:
    guard = Guard(store=SQLiteStore(folder / "ledger.db"), evidence_dir=folder / "evidence", observer=SilentObserver())

    @guard.tool(effect="read")
    def look(order_id: str, limit: int = 10) -> dict[str, Any]:
        return {"order_id": order_id, "limit": limit}

    def exists(call: Any) -> Applied | NotApplied:
        guard.call("look", {"order_id": call.arguments["order_id"]}).unwrap()
        return NotApplied()

    @guard.tool(effect="write", confirm=exists, business_key=("order_id",))
    def create(order_id: str, password: str | None = None) -> None:
        raise TimeoutError("no answer")

    return guard


@pytest.fixture
def calls(tmp_path: Path) -> dict[str, str]:
    """A read whose arguments were folded, a refused call, and a parked write; by request id."""
    with make_guard(tmp_path) as guard:
        environment = Environment(name="test-a", tenant="mall")
        with guard.task("look around", environment=environment, task_id="T", actor="Ann", allow={"look", "create"}):
            read = guard.call("look", '{"orderId": "A1", "limit": "5"}')
            refused = guard.call("look", {"order_id": 5.5})
            parked = guard.call("create", {"order_id": "A2", "password": "hunter22"})
        outside = guard.call("look", {"order_id": "A3"})
    assert (read.success, refused.success, parked.effect) == (True, False, "unknown")
    return {
        "read": read.request_id,
        "refused": refused.request_id,
        "parked": parked.request_id,
        "outside": outside.request_id,
    }


# -- list ----------------------------------------------------------------------------------------------------------------


def test_list_shows_calls_newest_first(shell: Shell, calls: dict[str, str]) -> None:
    result = shell("list")
    assert result.code == 0
    head, *rows = result.out.splitlines()
    assert head.split()[:2] == ["request", "id"]
    assert rows[0].startswith(calls["outside"])
    assert len(rows) == 5, "and the confirmation"


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (("--task", "T", "--tool", "create"), ["parked"]),
        (("--open",), ["parked"]),
        (("--state", "rejected"), ["refused"]),
        (("--state", "REJECTED", "--state", "PARKED"), ["parked", "refused"]),
        (("--limit", "1"), ["outside"]),
        (("--since", "1h", "--tool", "create"), ["parked"]),
        (("--until", "2020-01-01"), []),
        (("--since", "2020-01-01T12:00+02:00", "--tool", "create"), ["parked"]),
    ],
)
def test_list_narrows(shell: Shell, calls: dict[str, str], options: tuple[str, ...], names: list[str]) -> None:
    result = shell("list", "--json", *options)
    assert [row["request_id"] for row in result.lines] == [calls[name] for name in names]


@pytest.mark.parametrize("options", [("--state", "DONE"), ("--since", "yesterday"), ("--limit", "0")])
def test_list_refuses_what_it_does_not_know(shell: Shell, calls: dict[str, str], options: tuple[str, ...]) -> None:
    assert shell("list", *options).code == 2


# -- show ----------------------------------------------------------------------------------------------------------------


def test_show_tells_the_whole_story_of_a_write(shell: Shell, calls: dict[str, str]) -> None:
    text = shell("show", calls["parked"]).out
    for part in (
        "PARKED", "T, step 3", "test-a", "mall", "Ann", "look around", '"order_id": "A2"', '"password": "[redacted]"',
        "tool_allowed", "attempt 1", "TIMEOUT", "classified UNCERTAIN_RESULT", "confirmation", "NotApplied", "confirm_state", "caused",
        "look, confirm, SUCCEEDED",
    ):  # fmt: skip
        assert part in text, part
    assert "hunter22" not in text


def test_show_tells_the_folds_of_a_read(shell: Shell, calls: dict[str, str]) -> None:
    story = shell("show", calls["read"], "--json").json
    assert story["raw"] == '{"orderId": "A1", "limit": "5"}'
    assert story["arguments"] == {"order_id": "A1", "limit": 5}
    assert {fold["path"] for fold in story["folds"]} == {"orderId", "limit"} or len(story["folds"]) == 2
    assert (story["state"], story["basis"], story["result"]["data"]) == (
        "SUCCEEDED",
        "returned",
        {"order_id": "A1", "limit": 5},
    )
    assert len(story["attempts"]) == 1
    text = shell("show", calls["read"]).out
    assert "fold" in text
    assert "-> 5" in text


def test_show_tells_why_a_call_was_refused(shell: Shell, calls: dict[str, str]) -> None:
    story = shell("show", calls["refused"], "--json").json
    assert (story["state"], story["attempts"], story["result"]["error_type"]) == ("REJECTED", [], "PARAM_INVALID")
    assert "PARAM_INVALID" in shell("show", calls["refused"]).out


def test_show_names_the_paths_of_evidence(shell: Shell, tmp_path: Path) -> None:
    with make_guard(tmp_path) as guard:
        from fcguard import current_call

        @guard.tool(effect="read")
        def shot() -> str:
            current_call().attach(b"png", "screen.png", media_type="image/png", type="image")
            return "done"

        request_id = guard.call("shot").request_id
    (tmp_path / "shop.py").write_text("from tests.cli.test_cli_commands import make_guard\nfrom pathlib import Path\n")
    (item,) = shell("show", request_id, "--json").json["evidence"]
    assert item["path"].endswith(item["ref"])
    assert "screen.png" in shell("show", request_id).out


def test_show_of_an_unknown_call_says_so(shell: Shell, calls: dict[str, str]) -> None:
    result = shell("show", "fc-nope")
    assert (result.code, result.err) == (
        2,
        "fcguard: the ledger holds no call 'fc-nope'; `fcguard list` shows those it holds\n",
    )


def test_nothing_that_is_shown_can_steer_the_terminal(shell: Shell, tmp_path: Path) -> None:
    with make_guard(tmp_path) as guard:
        request_id = guard.call("look", {"order_id": "\x1b[2J evil"}).request_id
        guard.call("\x1b]0;evil\x07", {})
    for result in (shell("show", request_id), shell("list")):
        assert "\x1b" not in result.out
        assert "\x07" not in result.out


def test_show_tells_takeovers_late_results_and_resolutions(shell: Shell, calls: dict[str, str], tmp_path: Path) -> None:
    from fcguard.stores.base import Note

    store = SQLiteStore(tmp_path / "ledger.db")
    request_id = calls["parked"]
    late = {"request_id": request_id, "attempt": 1}
    ask(store, Note(request_id, Event("late", 2.0, {**late, "returned": True, "value": {"a": 1}})))
    ask(store, Note(request_id, Event("late", 3.0, {**late, "returned": False, "error": "OSError"})))
    ask(store, Note(request_id, Event("late", 4.0, {**late, "returned": True})))
    row = store.get(request_id)
    assert row is not None
    taken = {"by": "me", "from": "you", "liveness": "dead", "sent_until": 1.0}
    ask(store, Move(request_id, row.version, CallState.PARKED, 1, Event("claimed", 5.0, taken), next_at=6.0))
    store.close()
    assert shell("resolve", request_id, "--applied", "--by", "Ann", "--reason", "saw it").code == 0
    text = shell("show", request_id).out
    for part in (
        'returned {"a": 1}',
        "raised OSError",
        "by me from you (dead)",
        "applied, by Ann: saw it",
        "SUCCEEDED, operator",
    ):
        assert part in text, part


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


# -- where the ledger comes from ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("mysql://x", 2),
        ("sqlite:///", 2),
        ("ledger.db", 2),
        ("sqlite:///nowhere/ledger.db", 3),
        ("postgresql://127.0.0.1:1/x", 3),
    ],
)
def test_a_store_that_is_not_there(shell: Shell, url: str, code: int) -> None:
    result = shell("list", "--store", url, store=False)
    assert (result.code, result.err.startswith("fcguard: "), len(result.err.splitlines())) == (code, True, 1)


def test_a_file_that_is_no_ledger(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_text("not a database, but long enough to be read as one" * 100)
    assert shell("list").code == 3


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fcguard.cli.main", *arguments], cwd=folder, capture_output=True, text=True, timeout=120, check=False,
        env=os.environ | {"PYTHONPATH": str(_ROOT), "NO_COLOR": "1"} | environment,
    )  # fmt: skip


APP = """
    from pathlib import Path
    from tests.cli.test_cli_commands import make_guard

    guard = make_guard(Path(__file__).parent)
    number = 5

    def build():
        return make_guard(Path(__file__).parent)

    def needs(argument):
        return argument
"""


def test_the_ledger_of_an_application(calls: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(textwrap.dedent(APP))
    shown = run(tmp_path, "show", calls["parked"], "--app", "shop:guard")
    assert (shown.returncode, calls["parked"] in shown.stdout) == (0, True), shown.stderr
    recovered = run(tmp_path, "recover", "--app", "shop:build", "--json")
    assert (recovered.returncode, json.loads(recovered.stdout)["totals"]) == (1, {"waits": 1})
    for name in ("shop:number", "shop:nothing", "nowhere:guard", "shop", "shop:needs"):
        failed = run(tmp_path, "list", "--app", name)
        assert (failed.returncode, len(failed.stderr.splitlines())) == (2, 1), failed.stderr
    both = run(tmp_path, "list", "--app", "shop:guard", "--store", "sqlite:///x")
    assert (both.returncode, "not both" in both.stderr) == (2, True)
    table = run(tmp_path, "recovery-table", "--app", "shop:guard")
    assert table.returncode == 0


def test_the_default_ledger(calls: dict[str, str], tmp_path: Path) -> None:
    named = run(tmp_path, "list", "--json", FCGUARD_LEDGER=str(tmp_path / "ledger.db"))
    assert (named.returncode, len(named.stdout.splitlines())) == (0, 5)
    assert run(tmp_path, "list").returncode == 3, ".fcguard/ledger.db is not there"


def without(missing: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as if a package was not installed."""
    (folder / "blocked" / missing).mkdir(parents=True)
    (folder / "blocked" / missing / "__init__.py").write_text(
        f"raise ModuleNotFoundError('no {missing}', name='{missing}')"
    )
    return run(folder, *arguments, PYTHONPATH=f"{folder / 'blocked'}{os.pathsep}{_ROOT}")


def test_without_its_extra_the_command_says_what_to_install(tmp_path: Path) -> None:
    result = without("typer", tmp_path, "list")
    assert (result.returncode, result.stderr) == (
        2,
        "fcguard: 'typer' is not installed; run: pip install 'fcguard[cli]'\n",
    )


def test_tables_are_plain_without_rich(tmp_path: Path, calls: dict[str, str]) -> None:
    result = without("rich", tmp_path, "list", "--store", f"sqlite:///{tmp_path / 'ledger.db'}")
    assert (result.returncode, calls["read"] in result.stdout) == (0, True)


def test_a_missing_package_is_named_with_its_extra(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("fcguard.stores.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)  # the interpreter's own way to say that a module is not there
    result = shell("list", "--store", "postgresql://127.0.0.1/x", store=False)
    assert (result.code, "fcguard[postgres]" in result.err) == (2, True)
    monkeypatch.delitem(sys.modules, "fcguard.cli.commands", raising=False)
    monkeypatch.setitem(sys.modules, "typer", None)
    result = shell("list")
    assert (result.code, "fcguard[cli]" in result.err) == (2, True)


def test_the_ledger_of_an_application_in_this_process(
    shell: Shell, calls: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_in_process.py").write_text(textwrap.dedent(APP))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(_ROOT))
    for name in ("guard", "build"):
        assert shell("recover", "--app", f"shop_in_process:{name}", store=False).code == 1
    for app_name in ("shop_in_process:number", "nowhere_at_all:guard", "shop", "shop_in_process:needs"):
        assert shell("list", "--app", app_name, store=False).code == 2
    assert shell("list", "--app", "shop_in_process:build").code == 2, "and --store"
    assert shell("recovery-table", "--app", "shop_in_process:build", store=False).code == 0
    monkeypatch.setenv("FCGUARD_LEDGER", str(tmp_path / "ledger.db"))
    assert shell("list", store=False).code == 0


def test_a_written_trace_of_events_is_told_where_it_is_open(shell: Shell, tmp_path: Path) -> None:
    from fcguard.stores.base import Identity, Open

    store = SQLiteStore(tmp_path / "ledger.db")
    identity = Identity("fc-open", "-", "create", "1", "write", "fallback", parent_id="fc-parent")
    opened = Event(
        "opened", 1.0, {"arguments": {"text": "x" * 3000}, "approval": "decision 7 by Ann", "blocked_by": "fc-1"}
    )
    ask(store, Open(identity, CallState.STARTED, 1, opened))
    attempt = {"request_id": "fc-open", "number": 2, "delay_s": 0.5}
    ask(
        store,
        Move(
            "fc-open",
            1,
            CallState.UNCERTAIN,
            1,
            Event("uncertain", 1.5, {"number": 1, "duration_ms": 5.0, "abandoned": True}),
        ),
    )
    ask(store, Move("fc-open", 2, CallState.STARTED, 2, Event("attempt", 2.0, attempt), next_at=1e9))
    store.close()
    text = shell("show", "fc-open").out
    for part in (
        "fallback for fc-parent",
        "none",
        "decision 7",
        "abandoned",
        "after a pause of 0.5 s",
        "open: no outcome",
        "due",
        "3012 characters",
    ):
        assert part in text, part


def test_another_module_that_is_missing_is_not_blamed_on_the_extra(tmp_path: Path) -> None:
    result = without("jsonschema", tmp_path, "list")
    assert "fcguard[cli]" not in result.stderr
    assert result.returncode == 1


def test_a_terminal_gets_a_drawn_table(shell: Shell, calls: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    with redirect_stdout(Terminal()) as terminal:
        shell("list")
    assert "\x1b[1m" in terminal.getvalue()
    assert calls["read"] in terminal.getvalue()


def test_help_names_every_command_and_the_exit_codes(shell: Shell) -> None:
    text = shell("--help", store=False).out
    for name in (
        "list",
        "show",
        "export",
        "verify",
        "checkpoint",
        "prune",
        "recover",
        "resolve",
        "recovery-table",
        "trace",
    ):
        assert name in text
    assert "Exit codes" in text


# -- trace -------------------------------------------------------------------------------------------------------------------


def test_trace_prints_a_tree(shell: Shell, tmp_path: Path) -> None:
    from fcguard.telemetry import setup

    spans = tmp_path / "spans.jsonl"
    telemetry = setup(jsonl_path=spans)
    guard = Guard(
        store=SQLiteStore(tmp_path / "ledger.db"), evidence_dir=tmp_path, tracer_provider=telemetry.tracer_provider
    )

    @guard.tool(effect="read")
    def look() -> int:
        return 1

    request_id = look().request_id
    guard.close()
    telemetry.shutdown()
    result = shell("trace", str(spans), store=False)
    assert (result.code, "execute_tool look" in result.out) == (0, True)
    assert "trace" in shell("show", request_id).out


def test_a_trace_that_cannot_be_read(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("{}\nnonsense\n{}\n")
    assert shell("trace", str(tmp_path / "bad.jsonl"), store=False).code == 3
    assert shell("trace", str(tmp_path / "missing.jsonl"), store=False).code == 3
