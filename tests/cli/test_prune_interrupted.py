"""Ctrl-C while `fcguard prune` works on a big ledger: it says how far it was, loses nothing, and can be run again."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from fcguard import SQLiteStore
from fcguard.stores.audit import audit
from fcguard.testing.store_contract import enter

CALLS = 10_000


def _count(path: Path) -> int:
    connection = sqlite3.connect(path)
    (count,) = connection.execute("SELECT count(*) FROM fc_calls").fetchone()
    connection.close()
    return int(count)


@pytest.mark.skipif(os.name != "posix", reason="no such signal on this system")
def test_an_interrupted_prune_says_so_and_is_run_again(tmp_path: Path) -> None:
    path, written = tmp_path / "ledger.db", threading.Event()
    store = SQLiteStore(path)
    for number in range(CALLS):
        store.submit(enter(number), lambda _, number=number: written.set() if number == CALLS - 1 else None)
    assert written.wait(120)
    store.close()
    command = [
        sys.executable,
        "-m",
        "fcguard.cli.main",
        "prune",
        "--older-than",
        "0s",
        "--yes",
        "--store",
        f"sqlite:///{path}",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while _count(path) == CALLS and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert "calls are removed, perhaps some more. Nothing is lost: run it again to go on" in err
    left = _count(path)
    assert 0 < left < CALLS and left % 500 == 0, "whole parts"
    again = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True)
    assert f'"calls": {left}' in again.stdout
    store = SQLiteStore(path)
    assert audit(store).ok and audit(store).pruned == CALLS
    store.close()
