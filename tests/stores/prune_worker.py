"""A process that prunes a ledger and prints how far it is after each part; the tests kill it.

Usage: python prune_worker.py URL SCHEMA
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.stores.ledger_worker import make_store, say


def main() -> None:
    store = make_store(*sys.argv[1:])
    say("ready")
    store.prune(1e12, progress=lambda done: say(str(done.calls)))
    say("done")


if __name__ == "__main__":
    main()
