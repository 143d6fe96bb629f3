"""The table of attributes: equal to its page, to the registry, and to the model's own words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcguard.model.failure import ErrorType, FailureClass, NextAction
from fcguard.telemetry import outcome, semconv
from fcguard.telemetry.attribute_page import as_markdown
from tests.telemetry.telemetry_conformance import LATER, registry
from tests.telemetry.telemetry_driver import envelope

PAGE = Path(__file__).parents[2] / "docs" / "telemetry-attributes.md"


def test_page_is_made_from_the_table() -> None:
    assert PAGE.read_text() == as_markdown(), "write fcguard.telemetry.attribute_page.as_markdown() to the page"


def test_every_constant_stands_in_the_table() -> None:
    keys = {
        value
        for name, value in vars(semconv).items()
        if name.isupper() and isinstance(value, str) and re.fullmatch(r"(gen_ai|fcguard|error)\.[a-z_.]+", value)
    }
    spans = {semconv.ATTEMPT_SPAN, semconv.RECOVER_SPAN}
    assert keys - spans == set(semconv.ATTRIBUTES) | set(semconv.METRICS)


def test_metrics_use_declared_attributes() -> None:
    for row in semconv.METRICS.values():
        assert set(row.attributes) <= set(semconv.ATTRIBUTES)
        assert (row.buckets is not None) == (row.instrument == "histogram")


def test_foreign_keys_are_in_the_registry_with_its_type_and_level() -> None:
    known = registry()
    if known is None:
        pytest.skip("the registry is not present")
    assert known["schema_url"] == semconv.SCHEMA_URL
    theirs = known["spans"]["gen_ai.execute_tool.internal"]["attributes"]
    for row in semconv.ATTRIBUTES.values():
        if row.key.startswith("fcguard."):
            assert row.key not in known["attributes"]
            continue
        assert row.key in known["attributes"]
        if row.key not in LATER:
            assert row.requirement == theirs[row.key]


@given(
    st.sampled_from([None, *ErrorType, "OWN_CODE"]),
    st.sampled_from([None, *FailureClass]),
    st.sampled_from(["none", "applied", "not_applied", "unknown"]),
    st.sampled_from(["returned", "confirmed", "replayed", "late", "operator"]),
    st.integers(0, 3),
)
def test_every_envelope_has_one_outcome(
    error: str | None, family: FailureClass | None, effect: str, basis: str, attempts: int
) -> None:
    is_success = error is None
    found = outcome.outcome_of(
        envelope(
            success=is_success,
            error_type=error,
            failure_class=family,
            effect=effect,
            outcome_basis=basis if is_success else None,
            attempts=attempts,
        )
    )
    assert (found in {"completed", "deduplicated"}) is is_success
    if not is_success and attempts and effect == "unknown":
        assert found == "uncertain"
    if found in {"rejected", "denied"}:
        assert attempts == 0


@given(st.text(max_size=80) | st.from_regex(r"[A-Z][A-Z0-9_]{0,80}", fullmatch=True))
def test_codes_are_codes(text: str) -> None:
    code = outcome.code_of(text)
    assert code == "_OTHER" or (code == text and re.fullmatch(r"[A-Z][A-Z0-9_]{0,63}", code))
    assert type(code) is str


@given(st.text(max_size=80) | st.from_regex(r"[a-z][a-z0-9_]{0,80}", fullmatch=True))
def test_words_are_words(text: str) -> None:
    word = outcome.word_of(text)
    assert word is None or (word == text and re.fullmatch(r"[a-z][a-z0-9_]{0,63}", word))


def test_built_in_codes_and_words_are_known() -> None:
    assert [outcome.code_of(code) for code in ErrorType] == [code.value for code in ErrorType]
    assert [outcome.word_of(word) for word in NextAction] == [word.value for word in NextAction]
    assert outcome.code_of(None) == "_OTHER"


def test_observers_tell_all_and_ask_all() -> None:
    from fcguard.telemetry.observer import Observers, SilentObserver
    from tests.telemetry.telemetry_driver import CREATE, Driver

    told: list[tuple[str, str]] = []

    class Telling(SilentObserver):
        def __init__(self, name: str, *, wants: bool) -> None:
            self.name, self._wants = name, wants

        @property
        def wants_stages(self) -> bool:  # type: ignore[override]
            return self._wants

        def __getattribute__(self, name: str):  # type: ignore[no-untyped-def]
            if name in {
                "call_started",
                "call_ended",
                "attempt_started",
                "attempt_ended",
                "recovery_started",
                "recovery_ended",
                "stage",
            }:
                told.append((object.__getattribute__(self, "name"), name))
            return object.__getattribute__(self, name)

    both = Observers(Telling("a", wants=False), Telling("b", wants=True))
    assert both.wants_stages
    assert not Observers(SilentObserver()).wants_stages
    driver = Driver(both)
    call = driver.start(CREATE)
    both.stage(call, "context", 1.0, 2.0)
    driver.attempt(call)
    driver.recover(call, "retry", "again")
    driver.end(call)
    assert told == [
        ("a", "call_started"),
        ("b", "call_started"),
        ("b", "stage"),
        ("a", "attempt_started"),
        ("b", "attempt_started"),
        ("b", "attempt_ended"),
        ("a", "attempt_ended"),
        ("a", "recovery_started"),
        ("b", "recovery_started"),
        ("b", "recovery_ended"),
        ("a", "recovery_ended"),
        ("b", "call_ended"),
        ("a", "call_ended"),
    ]
