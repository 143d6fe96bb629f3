"""The documentation is true: its code runs, its tables are the code's, its links lead somewhere, and it builds.

`python -m tests.test_docs` writes the generated tables into the pages.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import fcguard
from fcguard.constraints import constraints_markdown
from fcguard.model.failure import TAXONOMY, NextAction
from fcguard.model.result import ENVELOPE_FIELDS
from fcguard.model.tool import ToolOptions
from fcguard.recovery.table import DEFAULT_TABLE
from fcguard.rules import rules_markdown

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("**/*.md"))
RUN_ELSEWHERE = {
    "adapters.md": "tests/adapters/test_adapters_page.py",
    "approval.md": "tests/approval/test_approval_page.py",
    "evaluation.md": "tests/evaluation/test_evaluation_docs.py",
    "constraints.md": "tests/constraints/test_constraints_docs.py",
    "rules.md": "tests/rules/test_rules_docs.py",
}
"""Pages whose code the tests of their own part run."""

_FENCE = re.compile(r"^(```+)([^\n]*)\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
_PICTURE = re.compile(r"!\[[^\]\n]*\]\(([^)\s]+)\)")


def blocks(page: Path) -> Iterator[tuple[int, str, str]]:
    """Yield (line, language, code) of every fenced block."""
    text = page.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        yield text[: found.start()].count("\n") + 1, found[2].strip(), found[3]


def prose(page: Path) -> str:
    """Answer a page's text without its code."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def section(page: str, name: str) -> str:
    """Answer what stands between two markers of a page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return text.partition(f"<!-- {name}:begin -->\n")[2].partition(f"<!-- {name}:end -->")[0]


# -- code ----------------------------------------------------------------------------------------------------------------

RUN_HERE = [
    page
    for page in [ROOT / "README.md", *PAGES]
    if page.name not in RUN_ELSEWHERE and any(language.startswith("python") for _, language, _ in blocks(page))
]


@pytest.mark.parametrize("page", RUN_HERE, ids=[page.name for page in RUN_HERE])
def test_every_block_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FCGUARD_LEDGER", raising=False)
    module = ModuleType(f"page_{page.stem.replace('-', '_')}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    number = 0
    try:
        for line, language, code in blocks(page):
            if language == "python":
                number += 1
                exec(compile("\n" * line + code, str(page), "exec"), module.__dict__)
    finally:
        for value in module.__dict__.values():
            if isinstance(value, fcguard.Guard):
                value.close()
    assert number > 0


def test_blocks_that_do_not_run_say_so_by_their_language() -> None:
    known = {"python", "text", "console", "json", "yaml", "bash", "toml"}
    odd = [
        (page.name, line, language)
        for page in [ROOT / "README.md", *PAGES]
        for line, language, _ in blocks(page)
        if language not in known
    ]
    assert odd == []


@pytest.mark.parametrize(("page", "test"), RUN_ELSEWHERE.items())
def test_a_page_that_is_run_elsewhere_is_read_there(page: str, test: str) -> None:
    source = (ROOT / test).read_text(encoding="utf-8")
    assert (DOCS / page).is_file()
    assert f'"{page}"' in source
    assert "exec(" in source


# -- tables --------------------------------------------------------------------------------------------------------------


def test_the_table_of_error_types_is_the_taxonomy() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section("envelope.md", "taxonomy").splitlines()
    ]
    assert [row[:3] for row in rows[2:]] == [
        [family.value, f"`{error}`", action.value] for error, (family, action) in TAXONOMY.items()
    ]
    assert all(len(row) == 4 and row[3] for row in rows)


def test_the_recovery_table_is_the_default_table() -> None:
    assert section("recovery.md", "recovery") == recovery_table()


def recovery_table() -> str:
    return DEFAULT_TABLE.render() + "\n"


def test_every_field_word_and_option_is_on_its_page() -> None:
    envelope, tools = (
        (DOCS / "envelope.md").read_text(encoding="utf-8"),
        (DOCS / "tools.md").read_text(encoding="utf-8"),
    )
    assert re.findall(r"^\| `(\w+)` \| [a-z A-Z]+ \| ", envelope, re.MULTILINE)[: len(ENVELOPE_FIELDS)] == list(
        ENVELOPE_FIELDS
    )
    assert [word for word in NextAction if f"| `{word}` | " not in envelope] == []
    assert [option for option in ToolOptions.__annotations__ if not re.search(rf"\b{option}\b", tools)] == []


def test_every_extra_that_is_named_is_declared() -> None:
    named = {
        extra
        for page in [ROOT / "README.md", *PAGES]
        for listed in re.findall(r"fcguard\[([a-z,]+)\]|extra `([a-z]+)`", page.read_text(encoding="utf-8"))
        for extra in "".join(listed).split(",")
    }
    for module in (ROOT / "fcguard").glob("**/*.py"):
        named |= set(re.findall(r'MissingExtraError\([^)]*"([a-z]+)"\)', module.read_text(encoding="utf-8")))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert named - set(project["optional-dependencies"]) == set()


def test_the_api_page_names_everything_public() -> None:
    named = set(re.findall(r"^::: fcguard\.(\w+)$", (DOCS / "api.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert named - {"errors"} == set(fcguard.__all__)


# -- links ---------------------------------------------------------------------------------------------------------------


@cache
def anchors(page: Path) -> frozenset[str]:
    """Answer the anchors of a page's headings, as the site makes them."""
    headings = re.findall(r"^#{1,6} +(.+?)\s*$", prose(page), re.MULTILINE)
    return frozenset(re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip()) for heading in headings)


def test_every_internal_link_resolves() -> None:
    broken = []
    for page in [ROOT / "README.md", ROOT / "CHANGELOG.md", *PAGES]:
        for target in [*_LINK.findall(prose(page)), *_PICTURE.findall(prose(page))]:
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            path, _, anchor = target.partition("#")
            there = (page.parent / path).resolve() if path else page
            if not there.exists() or (anchor and anchor not in anchors(there)):
                broken.append((page.name, target))
    assert broken == []


def test_every_page_is_in_the_navigation() -> None:
    yaml = pytest.importorskip("yaml", reason="needs the extra docs")

    def files(entry: object) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry
        for part in entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ():
            yield from files(part)

    listed = list(files(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))
    assert sorted(listed) == [page.relative_to(DOCS).as_posix() for page in PAGES]


def test_no_page_speaks_of_the_place_where_it_was_written() -> None:
    words = re.compile(r"/tmp/|/home/|/root/|\.\./shared|site-packages")
    found = [
        (page.name, hit)
        for page in [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "mkdocs.yml", *PAGES]
        for hit in words.findall(page.read_text(encoding="utf-8"))
    ]
    assert found == []


# -- the site ------------------------------------------------------------------------------------------------------------


def test_the_site_builds_strictly_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    for needed in ("mkdocs", "material", "mkdocstrings_handlers.python"):
        pytest.importorskip(needed, reason="needs the extra docs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert built.returncode == 0, built.stderr
    pages = list((tmp_path / "site").glob("**/*.html"))
    assert len(pages) > len(PAGES)
    loads = re.compile(
        r"<(?:script|img|iframe)[^>]+src=\"https?:|<link[^>]+rel=\"(?:stylesheet|preconnect)\"[^>]+href=\"https?:"
    )
    assert [page.name for page in pages if loads.search(page.read_text(encoding="utf-8"))] == []


def write_tables() -> None:
    """Put the generated tables into their pages."""
    for name, page, table in (
        ("recovery", "recovery.md", recovery_table),
        ("rules", "rules.md", rules_markdown),
        ("constraints", "constraints.md", constraints_markdown),
    ):
        before, begin, rest = (DOCS / page).read_text(encoding="utf-8").partition(f"<!-- {name}:begin -->\n")
        _, end, after = rest.partition(f"<!-- {name}:end -->")
        (DOCS / page).write_text(f"{before}{begin}{table()}{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    write_tables()
