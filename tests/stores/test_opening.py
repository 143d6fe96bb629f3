"""What a text names as a ledger: a URL is opened, never taken for a path, and never repeated in a message."""

from __future__ import annotations

from pathlib import Path

import pytest

from fcguard import Guard, SQLiteStore
from fcguard.errors import ConfigurationError
from fcguard.stores.opening import default_ledger, open_url
from fcguard.stores.postgres import PostgresStore

_BAD = [
    "mysql://u:hunter22@h/db",
    "sqlite://x.db",
    "sqlite:///",
    "sqlite:x.db",
    "postgresql:/u:hunter22@h/db",
    "https://[x",
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FCGUARD_LEDGER", raising=False)
    return tmp_path


@pytest.mark.parametrize("by", ["environment", "argument"])
def test_a_guard_opens_the_ledger_of_a_url(by: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for url, file in (("sqlite:///x.db", folder / "x.db"), (f"sqlite:///{folder}/deep/y.db", folder / "deep" / "y.db")):
        monkeypatch.setenv("FCGUARD_LEDGER", url if by == "environment" else "sqlite:///other.db")
        with Guard(store=url if by == "argument" else None) as guard:
            guard.tool(lambda: 1, name="tool", effect="read")
            assert guard.call("tool").data == 1
        assert file.is_file()
    assert not (folder / "sqlite:").exists()
    assert not (folder / "other.db").exists()


@pytest.mark.parametrize("by", ["environment", "argument"])
def test_a_guard_opens_the_ledger_of_a_server(by: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://u@127.0.0.1:1/db"
    monkeypatch.setenv("FCGUARD_LEDGER", url if by == "environment" else "")
    with Guard(store=url if by == "argument" else None) as guard:
        assert isinstance(guard.store, PostgresStore)
        assert guard.store.name == "postgresql://127.0.0.1:1/db"
        guard.tool(lambda: 1, name="send", effect="write")
        with guard.task("nobody listens there"):
            assert guard.call("send", {}).error_type == "EVIDENCE_FAILED"
    assert not list(folder.glob("postgresql*"))


@pytest.mark.parametrize("text", _BAD)
def test_what_is_meant_as_a_url_is_never_a_path(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FCGUARD_LEDGER", text)
    for opening in (Guard, default_ledger, lambda: Guard(store=text), lambda: SQLiteStore(text)):
        with pytest.raises(ConfigurationError, match="sqlite:///path") as caught:
            opening()
        assert "hunter22" not in str(caught.value)
    assert list(folder.iterdir()) == []


def test_a_url_that_became_a_path_is_refused_too() -> None:
    for url in ("sqlite:///x.db", "postgresql://u:hunter22@h/db"):
        with pytest.raises(ConfigurationError, match="is a URL") as caught:
            SQLiteStore(Path(url))
        assert "hunter22" not in str(caught.value)


def test_a_url_of_a_server_that_cannot_be_read_says_where_it_was_given() -> None:
    with pytest.raises(ConfigurationError, match="FCGUARD_LEDGER") as caught:
        open_url("postgresql://u:hunter22@[h/db", "FCGUARD_LEDGER")
    assert "hunter22" not in str(caught.value)


@pytest.mark.parametrize("path", ["named.db", "a:b.db", "deep/sqlite"])
def test_a_path_in_the_environment_stays_a_path(path: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FCGUARD_LEDGER", path)
    with Guard() as guard:
        guard.tool(lambda: 1, name="tool", effect="read")
        assert guard.call("tool").data == 1
    assert (folder / path).is_file()
