"""Laws of normalization, for any schema and any arguments."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fcguard.arguments import ArgumentSchema, Normalized
from fcguard.arguments.lint import DEFAULT_DIALECT
from fcguard.arguments.normalizer import normalize_long
from fcguard.arguments.scalars import json_equal
from fcguard.model.failure import TAXONOMY
from tests.arguments.reference import reference
from tests.arguments.replay import replay
from tests.arguments.strategies import anything, parameter_schemas, schemas_and_objects, values

effects = st.sampled_from(["read", "idempotent_write", "write", "destructive"])
many = settings(max_examples=300, deadline=None)


def containers(value: Any) -> Iterator[int]:
    if isinstance(value, dict | list):
        yield id(value)
        for item in value.values() if isinstance(value, dict) else value:
            yield from containers(item)


def is_plain(value: Any) -> bool:
    if type(value) is dict:
        return all(type(key) is str and is_plain(item) for key, item in value.items())
    if type(value) is list:
        return all(map(is_plain, value))
    return value is None or type(value) in (str, int, float, bool)


def agrees(compiled: ArgumentSchema, value: Any) -> bool:
    """What the reference says; of the mended schema, because some generated enums contradict their type."""
    return bool(reference(compiled._ready().engine.root, DEFAULT_DIALECT).is_valid(value))


def check_invariants(made: Normalized) -> None:
    assert (made.error_type is None) == (made.problems == ()) == (made.next_action is None) == (made.message == "")
    if made.problems:
        assert made.error_type in TAXONOMY
        assert made.next_action in ("fix_arguments", "ask_user", "escalate_to_platform")
    else:
        assert made.value is not None
    assert made.value is None or (type(made.value) is dict and is_plain(made.value))
    assert isinstance(made.raw, str)


@given(schema=parameter_schemas(), raw=anything, effect=effects)
@many
def test_anything_gets_an_answer(schema: dict[str, Any], raw: Any, effect: Any) -> None:
    compiled = ArgumentSchema.compile(schema)
    made = compiled.normalize(raw, effect=effect)
    check_invariants(made)
    if not made.problems:
        assert agrees(compiled, made.value)


@given(both=schemas_and_objects(), effect=effects)
@many
def test_objects_get_an_answer_and_are_left_alone(both: Any, effect: Any) -> None:
    schema, raw = both
    before, declared = copy.deepcopy(raw), copy.deepcopy(schema)
    compiled = ArgumentSchema.compile(schema)
    made = compiled.normalize(raw, effect=effect)
    check_invariants(made)
    assert repr(raw) == repr(before)
    assert repr(schema) == repr(declared)
    assert set(containers(raw)).isdisjoint(containers(made.value))
    if not made.problems:
        assert agrees(compiled, made.value)


@given(both=schemas_and_objects(), effect=effects)
@many
def test_normalizing_again_changes_nothing(both: Any, effect: Any) -> None:
    schema, raw = both
    compiled = ArgumentSchema.compile(schema)
    once = compiled.normalize(raw, effect=effect)
    if once.problems:
        return
    again = compiled.normalize(once.value, effect=effect)
    assert again.problems == ()
    assert again.folds == ()
    assert repr(again.value) == repr(once.value)


@given(both=schemas_and_objects(), effect=effects)
@many
def test_what_is_valid_stays_as_it_is(both: Any, effect: Any) -> None:
    schema, raw = both
    compiled = ArgumentSchema.compile(schema, closed=True)
    if not compiled.is_valid(raw):
        return
    made = compiled.normalize(raw, effect=effect)
    refused = {problem.rule for problem in made.problems}
    assert refused <= {"inexact"}
    if not refused:
        assert {fold.rule for fold in made.folds} <= {"default", "integral_float"}
        assert made.value is not None
        added = {
            fold.path for fold in made.folds if fold.rule == "default" and "." not in fold.path and "[" not in fold.path
        }
        kept = {key: item for key, item in made.value.items() if key not in added}
        assert json_equal(without_defaults(kept, made), raw)


def without_defaults(value: dict[str, Any], made: Normalized) -> dict[str, Any]:
    nested = any("." in fold.path or "[" in fold.path for fold in made.folds if fold.rule == "default")
    return dict(made_from(made)) if nested else value


def made_from(made: Normalized) -> dict[str, Any]:
    return json.loads(made.raw)


@given(both=schemas_and_objects(), effect=effects)
@many
def test_every_change_has_its_fold(both: Any, effect: Any) -> None:
    schema, raw = both
    made = ArgumentSchema.compile(schema).normalize(raw, effect=effect)
    assert repr(replay(raw, made.folds)) == repr(made.value)


@given(both=schemas_and_objects(), effect=effects)
@many
def test_text_and_object_are_read_alike(both: Any, effect: Any) -> None:
    schema, raw = both
    compiled = ArgumentSchema.compile(schema)
    by_object = compiled.normalize(raw, effect=effect)
    by_text = compiled.normalize(json.dumps(raw), effect=effect)
    by_bytes = compiled.normalize(json.dumps(raw).encode(), effect=effect)
    assert repr(by_object) == repr(by_text) == repr(by_bytes)


@given(both=schemas_and_objects())
@many
def test_the_quick_way_answers_as_the_long_one(both: Any) -> None:
    schema, raw = both
    compiled = ArgumentSchema.compile(schema)
    assert repr(compiled.normalize(raw)) == repr(normalize_long(compiled._ready(), raw, is_read=False))


@given(schema=parameter_schemas(), value=values)
@many
def test_check_answers_for_anything(schema: dict[str, Any], value: Any) -> None:
    compiled = ArgumentSchema.compile(schema)
    problems = compiled.check(value)
    assert compiled.is_valid(value) == (problems == ())
    if isinstance(value, dict):
        assert (problems == ()) == agrees(compiled, value)
    else:
        assert problems


@pytest.mark.parametrize("effect", ["read", "write"])
@pytest.mark.parametrize("raw", [None, "", b"", "null", {}])
def test_nothing_is_an_empty_object_where_nothing_is_required(raw: Any, effect: Any) -> None:
    made = ArgumentSchema.compile({"type": "object", "properties": {"a": {"type": "string"}}}).normalize(
        raw, effect=effect
    )
    assert made.value == {}
    assert made.problems == ()
