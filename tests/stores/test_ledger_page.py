"""The page about the ledger shows the table of transitions and the options that the code has.

`python -m tests.stores.test_ledger_page` writes the table into the page.
"""

from __future__ import annotations

import inspect
from pathlib import Path

from fcguard.model.states import TRANSITIONS, CallState
from fcguard.stores.owner import Liveness
from fcguard.stores.sqlite import SQLiteStore

PAGE = Path(__file__).resolve().parents[2] / "docs" / "ledger.md"
_BEGIN, _END = "<!-- transitions:begin -->\n", "<!-- transitions:end -->"


def table() -> str:
    """Render the transitions."""
    rows = ["| from | event | to | requires |", "|---|---|---|---|"]
    for row in TRANSITIONS:
        source = f"`{row.source}`" if row.source is not None else "(new)"
        requires = "" if row.requirement == "none" else row.requirement.replace("_", " ")
        rows.append(f"| {source} | {row.event} | `{row.target}` | {requires} |")
    return "\n".join(rows) + "\n"


def test_the_table_of_transitions_is_the_codes() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.partition(_BEGIN)[2].partition(_END)[0] == table()


def test_every_state_answer_and_option_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    options = [name for name in inspect.signature(SQLiteStore).parameters if name != "path"]
    for word in (*CallState, *Liveness, *options):
        assert f"| `{word}` |" in text, word


if __name__ == "__main__":
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    PAGE.write_text(before + _BEGIN + table() + _END + rest.partition(_END)[2], encoding="utf-8")
