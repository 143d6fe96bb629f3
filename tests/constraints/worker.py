"""A worker process that does, line by line, what its standard input says: `worker.py PLACE DIRECTORY OPTIONS`.

A line is JSON: {"tool": "look" or "save", "do": "succeed", "fail" or "wait"}; the answer is a line of JSON with the envelope. A
tool that waits first writes {"entered": ...}, and ends at the next line. "later" moves the wall clock of breaker and pool on
before, by so many seconds. With the option "ahead" its own clock is off by so many seconds, and they go by the clock of the state.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
logging.disable(logging.CRITICAL)
AHEAD = json.loads(sys.argv[3]).get("ahead", 0)
if AHEAD:
    right = time.time
    time.time = lambda: right() + AHEAD  # before anything takes a hold of it

from fcguard import Guard  # noqa: E402
from fcguard.constraints import CircuitBreaker, ResourcePool  # noqa: E402
from tests.constraints.backends import open_ledger, open_state  # noqa: E402


def say(**words: Any) -> None:
    print(json.dumps(words), flush=True)


def main(place: str, directory: str, options: dict[str, Any]) -> None:
    state = open_state(place)
    later = [0.0]

    def wall() -> float:
        return time.time() + later[0]

    clock: dict[str, Any] = {"state": state} if "ahead" in options else {"state": state, "wall": wall}
    breaker = CircuitBreaker("orders", **clock, **options["breaker"]) if "breaker" in options else None
    pool = ResourcePool("qa", ["ann"], **clock, **options["pool"]) if "pool" in options else None
    guard = Guard(store=open_ledger(place, Path(directory)), evidence_dir=Path(directory) / "evidence")

    def work(do: str) -> str:
        member = "" if pool is None else pool.leased()
        if do == "wait":
            say(entered=member)
            sys.stdin.readline()
        if do == "fail":
            raise ConnectionRefusedError
        return member

    constraints = [one for one in (breaker, pool) if one is not None]
    guard.tool(work, name="look", effect="read", retry=1, constraints=constraints)
    guard.tool(work, name="save", effect="write", retry=1, constraints=constraints)
    say(ready=True)
    for line in sys.stdin:
        wanted = json.loads(line)
        later[0] += wanted["later"]
        with guard.task("work"):
            result = guard.call(wanted["tool"], {"do": wanted["do"]})
        say(success=result.success, error_type=result.error_type, attempts=result.attempts, wait=result.retry_after)
    guard.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
