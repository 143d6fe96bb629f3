"""Who holds a call, and how one process proves that another is dead."""

from __future__ import annotations

import os
import platform
import secrets
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

__all__ = ["REMEMBERED", "Liveness", "Owner", "liveness_of", "this_owner"]

REMEMBERED: Final = 7 * 86400.0
"""Seconds for which a ledger keeps a dead process that owns nothing open: whoever recovers a call asks about all who had it."""


class Liveness(StrEnum):
    """What is known of the process that owns a call."""

    SELF = "self"
    """This process."""
    ALIVE = "alive"
    """A process of this machine that exists, running or paused."""
    DEAD = "dead"
    """Proved gone: same host and boot, and its pid is free or was given to a younger process; or the host was booted since."""
    UNKNOWN = "unknown"
    """On another host or in another container, or the system gives no proof."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A process that writes to a ledger.

    Attributes:
        id: random name of this opening of the ledger by this process.
        host: name of the machine or container, and its machine id where it has one.
        boot: id of the machine's boot and of the pid namespace (`boot/namespace`); empty where the system does not tell.
        pid: process id.
        started: start time of the process in the system's own ticks; 0 where the system does not tell.
        seen_at: wall clock of its last heartbeat.
    """

    id: str
    host: str
    boot: str
    pid: int
    started: int
    seen_at: float = 0.0


def this_owner(now: float) -> Owner:
    """Describe this process as an owner with a fresh id."""
    pid = os.getpid()
    status = _status(pid)
    return Owner(secrets.token_hex(8), _host(), _boot(), pid, status[1] if status else 0, now)


def liveness_of(owner: Owner, here: Owner) -> Liveness:
    """Tell whether `owner` is this process, alive, proved dead, or unknown.

    A lapsed lease or a missing heartbeat proves nothing and is not looked at.

    Args:
        owner: who is asked about.
        here: this process.
    """
    if owner.id == here.id:
        return Liveness.SELF
    if not owner.boot or owner.host != here.host:
        return Liveness.UNKNOWN
    if owner.boot != here.boot:
        return Liveness.DEAD if _was_rebooted(owner, here) else Liveness.UNKNOWN
    return _pid_liveness(owner)


_FIRST_NAMESPACE: Final = "pid:[4026531836]"
"""The pid namespace of the machine itself; Linux gives it this number (PROC_PID_INIT_INO)."""


def _was_rebooted(owner: Owner, here: Owner) -> bool:
    # A container keeps its name when it is moved to another machine, where the boot differs and the old one may still run.
    # So another boot counts only between processes outside containers, on a machine that has an id of its own.
    owner_boot, _, owner_namespace = owner.boot.partition("/")
    boot, _, namespace = here.boot.partition("/")
    is_machine = owner_namespace == namespace == _FIRST_NAMESPACE and "/" in here.host
    return is_machine and owner_boot != boot


def _pid_liveness(owner: Owner) -> Liveness:
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return Liveness.DEAD
    except OSError:
        pass  # it exists and belongs to somebody else
    status = _status(owner.pid)
    if status is None or not owner.started:
        return Liveness.ALIVE
    state, started = status
    if started != owner.started:
        return Liveness.DEAD
    return Liveness.DEAD if state in _ENDED and _threads(owner.pid) <= 1 else Liveness.ALIVE


_ENDED: Final = frozenset("ZX")
"""Process states of Linux for one that ended and was not collected by its parent yet."""


def _status(pid: int) -> tuple[str, int] | None:
    """Answer state and start time of a process; None where the system does not tell (see proc_pid_stat(5), fields 3 and 22)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return fields[0], int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


def _threads(pid: int) -> int:
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return 0


def _host() -> str:
    machine_id = _read("/etc/machine-id")
    return f"{platform.node()}/{machine_id}" if machine_id else platform.node()


def _boot() -> str:
    boot = _read("/proc/sys/kernel/random/boot_id")
    try:
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}" if boot else ""
    except OSError:
        return ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
