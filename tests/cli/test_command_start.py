"""How the `fcguard` command starts: where its ledger comes from, which packages it needs, and its help."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from fcguard import __version__
from tests.cli.ledger_shell import Shell

_ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("mysql://x", 2),
        ("sqlite:///", 2),
        ("nowhere.db", 3),
        ("", 2),
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
        [sys.executable, "-m", "fcguard.cli.main", *arguments], cwd=folder, capture_output=True, text=True, timeout=600, check=False,
        env=os.environ | {"PYTHONPATH": str(_ROOT), "NO_COLOR": "1"} | environment,
    )  # fmt: skip


APP = """
    from pathlib import Path
    from tests.cli.ledger_shell import make_guard

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
    by_url = run(tmp_path, "list", "--json", FCGUARD_LEDGER="sqlite:///ledger.db")
    assert (by_url.returncode, by_url.stdout) == (0, named.stdout)
    unknown = run(tmp_path, "list", FCGUARD_LEDGER="mysql://u:hunter22@h/db")
    assert (unknown.returncode, "FCGUARD_LEDGER begins with 'mysql'" in unknown.stderr) == (2, True)
    assert "hunter22" not in unknown.stderr
    nobody = run(tmp_path, "list", FCGUARD_LEDGER="postgresql://127.0.0.1:1/x")
    assert (nobody.returncode, len(nobody.stderr.splitlines())) == (3, 1)
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


def test_another_module_that_is_missing_is_not_blamed_on_the_extra(tmp_path: Path) -> None:
    result = without("jsonschema", tmp_path, "list")
    assert "fcguard[cli]" not in result.stderr
    assert result.returncode == 1


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


def test_the_version_is_told(shell: Shell) -> None:
    result = shell("--version", store=False)
    assert (result.code, result.out) == (0, f"fcguard {__version__}\n")


@pytest.mark.parametrize(
    "arguments", [("list", "--json"), ("list",), ("export",), ("verify",), ("recovery-table",), ("show", "REQUEST")]
)
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["held", "at once"])
def test_a_command_ends_quietly_when_its_reader_has_left(
    calls: dict[str, str], tmp_path: Path, arguments: tuple[str, ...], unbuffered: str
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    store = () if arguments == ("recovery-table",) else ("--store", "sqlite:///ledger.db")
    named = [calls["parked"] if one == "REQUEST" else one for one in arguments]
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "fcguard.cli.main", *named, *store],
            cwd=tmp_path, stdout=writing, stderr=subprocess.PIPE, text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(_ROOT), "PYTHONUNBUFFERED": unbuffered},
        )  # fmt: skip
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, "")
