"""A shell for the `fcguard` command and a ledger with calls of every kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from fcguard import Environment
from tests.cli.ledger_shell import Shell, make_guard


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path, capsys)


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
