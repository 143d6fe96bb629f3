"""The page about suites says what the tables say. `python -m tests.testing.test_suites_page` writes its matrices."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fcguard.testing.fault_criteria import CRITERIA
from fcguard.testing.fault_kinds import FAULTS
from fcguard.testing.fault_matrix import fault_suite, render_matrix
from fcguard.testing.reference_agents import follow_envelope, retry_blindly
from fcguard.testing.suites import SUITES, run_suite

PAGE = Path(__file__).parents[2] / "docs" / "suites.md"
AGENTS: dict[str, Any] = {"guarded": follow_envelope, "naive": retry_blindly}


def matrix(name: str) -> str:
    return render_matrix(run_suite(AGENTS[name], fault_suite(), trials=1, progress="none").sessions) + "\n"


def test_every_fault_criterion_and_suite_is_explained() -> None:
    text = PAGE.read_text("utf-8")
    assert [fault.name for fault in FAULTS.values() if f"| `{fault.name}` | {fault.title} |" not in text] == []
    assert [name for name, criterion in CRITERIA.items() if f"| `{name}` | {criterion.__doc__} |" not in text] == []
    assert [name for name in SUITES if f"`{name}`" not in text] == []


@pytest.mark.parametrize("name", AGENTS)
def test_the_matrices_of_the_page_are_those_of_the_agents(name: str) -> None:
    found = re.search(f"<!-- {name}:begin -->\n(.*?)<!-- {name}:end -->", PAGE.read_text("utf-8"), re.DOTALL)
    assert found is not None and found[1] == matrix(name)


if __name__ == "__main__":
    content = PAGE.read_text("utf-8")
    for one in AGENTS:
        head, _, rest = content.partition(f"<!-- {one}:begin -->\n")
        content = (
            f"{head}<!-- {one}:begin -->\n{matrix(one)}<!-- {one}:end -->{rest.partition(f'<!-- {one}:end -->')[2]}"
        )
    PAGE.write_text(content, "utf-8")
