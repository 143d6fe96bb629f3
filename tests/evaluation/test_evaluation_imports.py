"""The arithmetic, trace to numbers, imports nothing of fcguard above `model` and `arguments`, and no optional package."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import fcguard.evaluation

ROOT = Path(fcguard.evaluation.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
BELOW = ("fcguard.evaluation", "fcguard.arguments", "fcguard.model", "fcguard.errors")
OPTIONAL = {"numpy", "scipy", "jinja2", "plotly", "yaml", "rich"}


def imported(path: Path, *, top_level: bool = False) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    nodes = tree.body if top_level else list(ast.walk(tree))
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    own = {name for name in imported(path) if name.startswith("fcguard")}
    assert {name for name in own if not name.startswith(BELOW)} == set()


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_optional_packages_are_imported_only_where_they_are_used(path: Path) -> None:
    assert {name.split(".")[0] for name in imported(path, top_level=True)} & OPTIONAL == set()


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_arithmetic_does_not_import_what_lies_around_it(path: Path) -> None:
    part = path.relative_to(ROOT).parts[0]
    around = ("fcguard.evaluation.report", "fcguard.evaluation.suites", "fcguard.evaluation.importers")
    if part in ("report", "suites", "importers"):
        return
    assert {name for name in imported(path) if name.startswith(around)} == set()
    assert part.endswith(".py")


def test_the_modules_load_without_the_extra() -> None:
    names = [".".join(("fcguard", "evaluation", *path.relative_to(ROOT).with_suffix("").parts)) for path in FILES]
    modules = [name.removesuffix(".__init__") for name in names]
    code = (
        "import sys, importlib\n"
        f"for name in {sorted(OPTIONAL)!r}: sys.modules[name] = None\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        "from fcguard.evaluation.align import align\n"
        "from fcguard.evaluation.suites.traps import trap_gold\n"
        "from fcguard.evaluation.trace import CallRecord\n"
        "from fcguard.errors import MissingExtraError\n"
        "try: align([CallRecord('1', 'search')], trap_gold().tasks['lured_by_name'])\n"
        "except MissingExtraError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT.parents[1]
    )
    assert done.returncode == 0, done.stderr
    assert "pip install 'fcguard[evaluation]'" in done.stdout


@pytest.mark.parametrize(
    ("package", "statement"),
    [
        ("scipy", "from fcguard.evaluation.intervals import upper_bound; upper_bound(1, 10)"),
        ("numpy", "from fcguard.evaluation.intervals import bootstrap; bootstrap([(1, 2), (2, 2)])"),
        ("numpy", "from fcguard.evaluation.compare import permutation_p; permutation_p([1.0] * 30)"),
        ("yaml", "from fcguard.evaluation.gold import load_gold; load_gold('gold.yaml')"),
        ("rich", "from fcguard.evaluation.report.terminal import print_report; print_report({})"),
        ("jinja2", "from fcguard.evaluation.report.html import render_html; render_html({})"),
        ("plotly", "from fcguard.evaluation.report.charts import build_charts; build_charts({})"),
        ("plotly", "from fcguard.evaluation.report.charts import plotting_library; plotting_library()"),
    ],
)
def test_a_missing_package_is_named_with_the_way_to_get_it(tmp_path: Path, package: str, statement: str) -> None:
    (tmp_path / "gold.yaml").write_text("a: 1", "utf-8")
    code = f"import sys; sys.path.insert(0, {str(ROOT.parents[1])!r}); sys.modules[{package!r}] = None; {statement}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "MissingExtraError" in done.stderr
    assert "pip install 'fcguard[evaluation]'" in done.stderr
