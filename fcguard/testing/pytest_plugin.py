"""A pytest plugin: the release gate inside a test run, as a fixture, and reports of it where they are wanted.

::

    def test_release(fcguard_gate):
        fcguard_gate("run.jsonl", suite="traps-en", baseline="baseline.json")

    @pytest.mark.fcguard_gate("run.jsonl", gold="gold.yaml", tools="tools.json", min_pass_rate=0.9)
    def test_gate(): ...

Nothing of fcguard is imported before a test uses it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fcguard.evaluation.gate import Verdict
    from fcguard.evaluation.metrics import Measures

__all__ = ["fcguard_gate", "pytest_addoption", "pytest_configure", "pytest_runtest_call"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for reports."""
    group = parser.getgroup("fcguard")
    group.addoption(
        "--fcguard-reports",
        metavar="DIR",
        default=None,
        help="write the report of each fcguard gate into DIR (HTML, JSON)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        "fcguard_gate(*traces, gold=, tools=, suite=, baseline=, format=, version=, model=, allow_inconclusive=, **limits): "
        "hold recorded tool calls against the release gate; the test fails if the gate does",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    """Hold the gate of a marked test once the test itself has passed, so that it may make the trace."""
    answer = yield
    for mark in item.iter_markers("fcguard_gate"):
        _hold(item, mark.args, mark.kwargs)
    return answer


@pytest.fixture
def fcguard_gate(request: pytest.FixtureRequest) -> Callable[..., Verdict]:
    """Hold traces against the release gate: `fcguard_gate(*traces, gold=, tools=, suite=, baseline=, ...) -> Verdict`.

    Args of the function it gives (paths are relative to the root of the test run):
        *traces: traces of any known format, a SQLite ledger, or a `SuiteRun`.
        gold, tools, baseline: files.
        suite: name of a suite that ships, instead of gold and tools.
        format: the importer; guessed when left out.
        version, model: of what is tested.
        allow_inconclusive: whether "not decided" passes the test; default: no.
        **limits: fields of `GateLimits`, and `min_pass_rate` for `pass_rate`.

    It fails the test if the gate fails or cannot be decided; wrong usage is a failure too, with the reason.
    """

    def hold(*traces: Any, **options: Any) -> Verdict:
        return _hold(request.node, traces, options)

    return hold


def _hold(item: Any, traces: tuple[Any, ...], given: Mapping[str, Any]) -> Verdict:
    from fcguard.errors import FcguardError

    options = dict(given)
    allow_inconclusive = options.pop("allow_inconclusive", False)
    try:
        found = _assessed(item.config.rootpath, traces, options)
        _write_reports(item, found.document)
    except FcguardError as error:
        pytest.fail(f"fcguard gate: {error}", pytrace=False)
    verdict: Verdict = found.verdict
    text = verdict.text()
    item.add_report_section("call", "fcguard gate", text)
    if verdict.outcome == "pass" or (verdict.outcome == "inconclusive" and allow_inconclusive):
        return verdict
    pytest.fail(text, pytrace=False)


def _assessed(root: Path, traces: tuple[Any, ...], options: dict[str, Any]) -> Any:
    from fcguard.errors import UsageError
    from fcguard.evaluation.baseline import load_baseline
    from fcguard.evaluation.gate import GateLimits
    from fcguard.evaluation.report.assess import assess
    from fcguard.evaluation.trace import RunIdentity
    from fcguard.store_urls import is_url
    from fcguard.testing.ledger_trace import open_trace
    from fcguard.testing.suites import SuiteRun

    if not traces:
        raise UsageError("name at least one trace")
    importer = options.pop("format", None)
    runs = [
        one.run()
        if isinstance(one, SuiteRun)
        else open_trace(one if is_url(str(one)) else root / one, importer, said="fcguard_gate: a trace")
        for one in traces
    ]
    baseline = options.pop("baseline", None)
    identity = RunIdentity(options.pop("version", ""), options.pop("model", ""))
    measures = _measures(root, traces, options)
    if "min_pass_rate" in options:
        options["pass_rate"] = options.pop("min_pass_rate")
    try:
        limits = GateLimits(**options)
    except TypeError as error:
        known = ", ".join(GateLimits.__dataclass_fields__)
        raise UsageError(f"fcguard_gate: {error}; limits are {known}") from None
    trusted = None if baseline is None else load_baseline(root / baseline)
    return assess(runs, measures, identity=identity, baseline=trusted, limits=limits)


def _measures(root: Path, traces: tuple[Any, ...], options: dict[str, Any]) -> Measures:
    from fcguard.errors import UsageError
    from fcguard.evaluation.catalogue import Catalogue
    from fcguard.evaluation.gold import load_gold
    from fcguard.evaluation.metrics import Measures
    from fcguard.testing.suites import SuiteRun, suite_named

    gold, tools, suite = options.pop("gold", None), options.pop("tools", None), options.pop("suite", None)
    if suite is not None and (gold is not None or tools is not None):
        raise UsageError("give suite=, or gold= and tools=, not both")
    if suite is not None:
        return suite_named(suite).measures
    if gold is None and tools is None and isinstance(traces[0], SuiteRun):
        return traces[0].suite.measures
    return Measures(
        None if gold is None else load_gold(root / gold), Catalogue() if tools is None else Catalogue.load(root / tools)
    )


def _write_reports(item: Any, document: dict[str, Any]) -> None:
    folder = item.config.getoption("--fcguard-reports")
    if folder is None:
        return
    from fcguard.evaluation.report.write import write_report

    base = Path(folder)
    base.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", item.nodeid).strip("-.")
    for ending in (".html", ".json"):
        write_report(document, base / f"{name}{ending}")
