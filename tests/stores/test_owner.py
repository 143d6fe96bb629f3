"""Who is dead, who is alive, and who cannot be told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fcguard.stores import owner as owner_module
from fcguard.stores.owner import Liveness, Owner, liveness_of, this_owner

HERE = this_owner(0.0)
_MACHINE = "pid:[4026531836]"


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; print(1, flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def _owner_of(pid: int) -> Owner:
    """Describe another process as it would describe itself."""
    with open(f"/proc/{pid}/stat") as stat:
        started = int(stat.read().rpartition(")")[2].split()[19])
    return replace(HERE, id="other", pid=pid, started=started)


def test_every_opening_has_an_id_of_its_own() -> None:
    assert this_owner(0.0).id != this_owner(0.0).id
    assert (HERE.pid, HERE.seen_at) == (os.getpid(), 0.0)
    assert HERE.host


def test_this_opening_is_self_and_another_of_this_process_is_alive() -> None:
    assert liveness_of(HERE, HERE) is Liveness.SELF
    assert liveness_of(this_owner(0.0), HERE) is Liveness.ALIVE


pytestmark_linux = pytest.mark.skipif(sys.platform != "linux", reason="the proof reads /proc")


@pytestmark_linux
def test_a_process_is_alive_paused_or_not_until_it_is_gone(child: subprocess.Popen[bytes]) -> None:
    owner = _owner_of(child.pid)
    assert liveness_of(owner, HERE) is Liveness.ALIVE
    child.send_signal(signal.SIGSTOP)
    assert liveness_of(owner, HERE) is Liveness.ALIVE
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert liveness_of(owner, HERE) is Liveness.DEAD, "ended, and its parent has not collected it yet"
    child.wait()
    assert liveness_of(owner, HERE) is Liveness.DEAD


@pytestmark_linux
def test_a_pid_that_was_given_away_is_dead(child: subprocess.Popen[bytes]) -> None:
    owner = _owner_of(child.pid)
    assert liveness_of(replace(owner, started=owner.started - 5), HERE) is Liveness.DEAD
    assert liveness_of(replace(owner, started=0), HERE) is Liveness.ALIVE, "start time unknown: no proof"


def test_a_process_of_another_user_exists() -> None:
    assert liveness_of(replace(HERE, id="other", pid=1, started=0), HERE) is Liveness.ALIVE


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"host": "elsewhere"}, Liveness.UNKNOWN),
        ({"boot": ""}, Liveness.UNKNOWN),
        ({"boot": f"earlier/{_MACHINE}"}, Liveness.DEAD),
        ({"boot": "earlier/pid:[4026532000]"}, Liveness.UNKNOWN),
        ({"boot": f"now/{_MACHINE}", "pid": 2**22 + 5}, Liveness.DEAD),
        ({"boot": "now/pid:[4026532000]"}, Liveness.UNKNOWN),
    ],
)
def test_other_hosts_boots_and_containers(change: dict[str, object], expected: Liveness) -> None:
    here = replace(HERE, host="machine/0123", boot=f"now/{_MACHINE}")
    assert liveness_of(replace(here, id="other", **change), here) is expected  # type: ignore[arg-type]


def test_another_boot_of_a_host_without_an_id_proves_nothing() -> None:
    here = replace(HERE, host="container", boot=f"now/{_MACHINE}")
    assert liveness_of(replace(here, id="other", boot=f"earlier/{_MACHINE}"), here) is Liveness.UNKNOWN


def test_what_the_system_does_not_tell_is_unknown(tmp_path: Path) -> None:
    assert owner_module._status(2**22 + 5) is None
    assert owner_module._threads(2**22 + 5) == 0
    assert owner_module._read(str(tmp_path / "nothing")) == ""
    (tmp_path / "odd").write_bytes(b"\xff\xfe")
    assert owner_module._read(str(tmp_path / "odd")) == ""


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root, to become a user without rights"
)
def test_a_process_that_may_not_be_signalled_is_alive() -> None:
    os.seteuid(65534)
    try:
        assert liveness_of(replace(HERE, id="other", pid=os.getppid(), started=0), HERE) is Liveness.ALIVE
    finally:
        os.seteuid(0)
