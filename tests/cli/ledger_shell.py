"""Runs `fcguard` in this process on a ledger, and the guard that fills this ledger."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fcguard import Applied, Guard, NotApplied, SQLiteStore
from fcguard.cli.main import app
from fcguard.telemetry.observer import SilentObserver


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
