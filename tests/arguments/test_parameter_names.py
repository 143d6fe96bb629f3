"""Names of parameters: other spellings, aliases, collisions, near misses, reserved and bound names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcguard.arguments import ArgumentSchema, Fold
from fcguard.arguments.names import close_names, is_identifier, is_reserved, spelling

CLOSED = {
    "type": "object",
    "properties": {"message_id": {"type": "string"}, "_timeout_seconds": {"type": "integer"}},
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("declared", "other"),
    [
        ("message_id", "messageId"),
        ("message_id", "MessageId"),
        ("message_id", "message-id"),
        ("message_id", "MESSAGE_ID"),
        ("message_id", "messageID"),
        ("messageId", "message_id"),
        ("message-id", "message_id"),
        ("HTTPServer", "http_server"),
        ("userID", "user_id"),
        ("_private", "_Private"),
        ("from_", "From_"),
    ],
)
@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("effect", ["read", "write"])
def test_other_spellings_of_one_name(declared: str, other: str, closed: bool, effect: Any) -> None:
    schema = {"type": "object", "properties": {declared: {"type": "string"}}}
    made = ArgumentSchema.compile(schema, closed=closed).normalize({other: "m-1"}, effect=effect)
    assert made.problems == ()
    assert made.value == {declared: "m-1"}
    assert made.folds == (Fold(declared, "name", other, declared),)


@pytest.mark.parametrize(
    ("declared", "other"),
    [
        ("_timeout_seconds", "TimeoutSeconds"),
        ("timeout_seconds", "_timeout_seconds"),
        ("order_id", "orderid"),
        ("order_id", "order_ids"),
        ("address_2", "address2"),
        ("message_id", "message id"),
        ("message_id", "message.id"),
        ("class_", "class"),
    ],
)
def test_near_misses_are_never_applied(declared: str, other: str) -> None:
    schema = {"type": "object", "properties": {declared: {"type": "string"}}}
    made = ArgumentSchema.compile(schema, closed=True).normalize({other: "1"}, effect="read")
    assert made.error_type == "PARAM_UNKNOWN"
    assert made.value == {other: "1"}
    assert f"did you mean {declared!r}" in made.message


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize(
    "raw",
    [
        {"messageId": "m-1", "message_id": "m-2"},
        {"message_id": "m-1", "messageId": "m-1"},
        {"message-id": "m-1", "MessageId": "m-2"},
    ],
)
def test_two_names_for_one_parameter_are_refused(raw: dict[str, str], closed: bool) -> None:
    made = ArgumentSchema.compile(
        {"type": "object", "properties": {"message_id": {"type": "string"}}}, closed=closed
    ).normalize(raw)
    assert made.error_type == "PARAM_INVALID"
    assert made.value == raw
    assert {problem.rule for problem in made.problems} == {"name_collision"}
    assert "mean the same parameter" in made.message


def test_a_name_that_could_mean_two_parameters_is_unknown() -> None:
    schema = {"type": "object", "properties": {"messageId": {}, "message_id": {}}, "additionalProperties": False}
    assert ArgumentSchema.compile(schema).normalize({"message-id": "1"}).error_type == "PARAM_UNKNOWN"


def test_names_that_are_declared_somewhere_in_the_object_are_not_renamed() -> None:
    schema = {
        "type": "object",
        "allOf": [{"properties": {"user_id": {"type": "string"}}}, {"properties": {"userId": {"type": "string"}}}],
    }
    made = ArgumentSchema.compile(schema).normalize({"userId": "1"})
    assert (made.value, made.folds) == ({"userId": "1"}, ())


def test_aliases() -> None:
    schema = {
        "type": "object",
        "properties": {"order_id": {"type": "integer"}, "id": {"type": "string"}},
        "additionalProperties": False,
    }
    compiled = ArgumentSchema.compile(schema, aliases={"order_id": ["orderNo", "id", "number"]})
    assert compiled.normalize({"orderNo": "5"}).value == {"order_id": 5}
    assert compiled.normalize({"order_no": 5}).value == {"order_id": 5}
    assert compiled.normalize({"id": "5"}).value == {"id": "5"}
    assert compiled.normalize({"number": 5, "order_id": 6}).error_type == "PARAM_INVALID"
    twice = ArgumentSchema.compile(schema, aliases={"order_id": ["ref"], "id": ["ref"]})
    assert twice.normalize({"ref": "5"}).error_type == "PARAM_UNKNOWN"


def test_aliases_are_for_parameters_not_for_what_lies_within() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "object", "properties": {"order_id": {}}, "additionalProperties": False}},
    }
    assert (
        ArgumentSchema.compile(schema, aliases={"order_id": ["ref"]}).normalize({"a": {"ref": 1}}).error_type
        == "PARAM_UNKNOWN"
    )


def test_names_within_an_open_object_that_is_valid_as_it_stands_are_data() -> None:
    inner = {"type": "object", "properties": {"user_id": {"type": "string"}}}
    schema = {"type": "object", "properties": {"a": inner, "b": {**inner, "required": ["user_id"]}}}
    made = ArgumentSchema.compile(schema).normalize({"a": {"userId": "1"}, "b": {"userId": "1"}})
    assert made.value == {"a": {"userId": "1"}, "b": {"user_id": "1"}}


def test_the_order_of_parameters_is_kept() -> None:
    schema = {"type": "object", "properties": {"a_b": {}, "c": {}}}
    made = ArgumentSchema.compile(schema).normalize({"c": 1, "aB": 2, "d": 3})
    assert list(made.value or ()) == ["c", "a_b", "d"]


def test_unknown_names_of_a_closed_schema_are_listed_with_what_is_allowed() -> None:
    made = ArgumentSchema.compile(CLOSED).normalize({"message_id": "a", "color": "red"})
    assert made.error_type == "PARAM_UNKNOWN"
    assert made.next_action == "fix_arguments"
    assert "color" in made.message
    assert "allowed: _timeout_seconds, message_id" in made.message


RESERVED = ["__class__", "__proto__", "__init__", "__globals__", "constructor", "prototype"]


@pytest.mark.parametrize("name", RESERVED)
@pytest.mark.parametrize("effect", ["read", "write"])
def test_reserved_names_are_refused_even_by_an_open_schema(name: str, effect: Any) -> None:
    for schema in ({"type": "object"}, {"type": "object", "properties": {"city": {"type": "string"}}}):
        made = ArgumentSchema.compile(schema).normalize({"city": "Oslo", name: {"admin": True}}, effect=effect)
        assert made.error_type == "PARAM_UNKNOWN"
        assert [(problem.path, problem.rule) for problem in made.problems] == [(name, "reserved_name")]


@pytest.mark.parametrize(
    "raw",
    [
        {"a": {"__proto__": 1}},
        {"a": [{"__class__": 1}]},
        {"a": '{"__proto__": 1}'},
        {"a": {"constructor": {"prototype": 1}}},
    ],
)
def test_reserved_names_are_refused_at_every_depth(raw: dict[str, Any]) -> None:
    made = ArgumentSchema.compile(
        {"type": "object", "properties": {"a": {"type": ["object", "array"]}}}, closed=True
    ).normalize(raw)
    assert made.error_type == "PARAM_UNKNOWN"
    assert {problem.rule for problem in made.problems} == {"reserved_name"}


def test_reserved_names_that_are_declared_and_data_that_only_looks_so_are_fine() -> None:
    schema = {
        "type": "object",
        "properties": {"__typename__": {"type": "string"}, "constructor": {"type": "string"}, "a": {"type": "object"}},
    }
    raw = {
        "__typename__": "x",
        "constructor": "Ferrari",
        "a": {"constructor": "McLaren", "__x": 1, "__typename": 2, "____": 3},
    }
    made = ArgumentSchema.compile(schema).normalize(raw)
    assert (made.value, made.problems) == (raw, ())


def test_bound_parameters_are_not_the_models_to_send() -> None:
    schema = {
        "type": "object",
        "properties": {"order_id": {"type": "string"}, "tenant_id": {"type": "string"}},
        "required": ["order_id", "tenant_id"],
    }
    compiled = ArgumentSchema.compile(schema, hidden=["tenant_id"])
    assert compiled.normalize({"order_id": "1"}).value == {"order_id": "1"}
    for name in ("tenant_id", "tenantId", "TENANT_ID", "tenant-id"):
        for effect in ("read", "write"):
            made = compiled.normalize({"order_id": "1", name: "other"}, effect=effect)  # type: ignore[arg-type]
            assert made.error_type == "PARAM_UNKNOWN"
            assert [problem.rule for problem in made.problems] == ["bound_parameter"]
            assert "other" not in made.message
    closed = ArgumentSchema.compile(schema, hidden=["tenant_id"], closed=True).normalize(
        {"order_id": "1", "tenant_id": "x"}
    )
    assert [problem.rule for problem in closed.problems] == ["bound_parameter"]
    wrapped = compiled.normalize('{"arguments": {"order_id": "1", "tenant_id": "x"}}')
    assert wrapped.error_type == "PARAM_UNKNOWN"


@given(st.text(max_size=300))
def test_spelling_is_settled(name: str) -> None:
    assert spelling(spelling(name)) == spelling(name)


@given(st.lists(st.sampled_from(["user", "id", "max", "http"]), min_size=1, max_size=4))
def test_all_styles_of_the_same_words_are_one_spelling(words: list[str]) -> None:
    snake = "_".join(words)
    camel = words[0] + "".join(word.title() for word in words[1:])
    assert {
        spelling(name) for name in (snake, snake.upper(), "-".join(words), camel, camel[0].upper() + camel[1:])
    } == {snake}


@given(st.text(max_size=200), st.lists(st.text(max_size=100), max_size=5))
def test_close_names_are_known_names(name: str, known: list[str]) -> None:
    assert set(close_names(name, known)) <= set(known)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("order_id", True),
        ("orderId", True),
        ("ID", True),
        ("uuids", True),
        ("name", False),
        ("paid", False),
        ("idea", False),
    ],
)
def test_identifiers(name: str, answer: bool) -> None:
    assert is_identifier(name) is answer


@pytest.mark.parametrize("name", ["__", "____", "__x", "x__", "_x_", "proto"])
def test_not_reserved(name: str) -> None:
    assert not is_reserved(name)
