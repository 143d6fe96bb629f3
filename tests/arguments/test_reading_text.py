"""Reading raw text: what is JSON, what is repaired for whom, and what is refused with which word."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from fcguard.arguments import ArgumentSchema

OPEN = ArgumentSchema.compile({"type": "object"})
ITEM = ArgumentSchema.compile(
    {
        "type": "object",
        "properties": {
            "x": {"type": "integer"},
            "s": {"type": "string"},
            "flag": {"type": ["boolean", "null"]},
            "list": {"type": "array"},
        },
        "additionalProperties": False,
    }
)
NEEDS = ArgumentSchema.compile(
    {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]}
)


def rules(made: Any) -> list[str]:
    return [fold.rule for fold in made.folds]


@pytest.mark.parametrize("effect", ["read", "idempotent_write", "write", "destructive"])
@pytest.mark.parametrize(
    ("raw", "value", "folds"),
    [
        ('{"x": 1}', {"x": 1}, []),
        (' \n{"x": 1}\t\r\n', {"x": 1}, []),
        (b'{"s": "\xc3\xa9"}', {"s": "é"}, []),
        (bytearray(b'{"x": 1}'), {"x": 1}, []),
        (memoryview(b'{"x": 1}'), {"x": 1}, []),
        ('\ufeff{"x": 1}', {"x": 1}, ["byte_order_mark"]),
        (b'\xef\xbb\xbf{"x": 1}', {"x": 1}, ["byte_order_mark"]),
        ("", {}, ["empty_arguments"]),
        ("  \n", {}, ["empty_arguments"]),
        ("null", {}, ["empty_arguments"]),
        (None, {}, ["empty_arguments"]),
        (b"", {}, ["empty_arguments"]),
        ('"{\\"x\\": 1}"', {"x": 1}, ["json_string"]),
        ('```json\n{"x": 1}\n```', {"x": 1}, ["fence"]),
        ('```\n{"x": 1}\n```', {"x": 1}, ["fence"]),
        ('```{"x": 1}```', {"x": 1}, ["fence"]),
        ('```JSON {"x": 1}```', {"x": 1}, ["fence"]),
        ('  ```tool_code\r\n{"x": 1}\r\n```  ', {"x": 1}, ["fence"]),
        ('{"arguments": {"x": 1}}', {"x": 1}, ["wrapper"]),
        ('{"_": {"x": 1}}', {"x": 1}, ["wrapper"]),
        ('{"input": {}}', {}, ["wrapper"]),
        ('```json\n{"args": {"x": 1}}\n```', {"x": 1}, ["fence", "wrapper"]),
        ('{"s": "a\nb\tc\x01"}', {"s": "a\nb\tc\x01"}, ["control_characters"]),
        ('{"x": 123456789012345678901234567890}', {"x": 123456789012345678901234567890}, []),
        ('{"s": "\\ud83d\\ude00"}', {"s": "\U0001f600"}, []),
        ('{"s": "\\ud83d"}', {"s": "\ud83d"}, []),
        ('{"s": "Infinity, NaN, {, }, ```"}', {"s": "Infinity, NaN, {, }, ```"}, []),
        ('{"s": "a\\nb, ]"}', {"s": "a\nb, ]"}, []),
    ],
)
def test_read_for_every_tool(raw: Any, value: Any, folds: list[str], effect: Any) -> None:
    made = ITEM.normalize(raw, effect=effect)
    assert made.problems == ()
    assert made.value == value
    assert rules(made) == folds


READ_ONLY = [
    ('{"x": 1,}', {"x": 1}, ["trailing_comma"]),
    ('{"list": [1, 2, ], }', {"list": [1, 2]}, ["trailing_comma"]),
    ('{"flag": True}', {"flag": True}, ["python_literal"]),
    ('{"flag": None, "s": "None, True"}', {"flag": None, "s": "None, True"}, ["python_literal"]),
    ("{'s': 'it\\'s \"so\"', 'flag': False}", {"s": 'it\'s "so"', "flag": False}, ["python_literal"]),
    ("{'s': \"it's\", 'x': 1,}", {"s": "it's", "x": 1}, ["python_literal", "trailing_comma"]),
    ("{'s': 'tab\\t, \\u00e9, \\x41, back\\\\slash'}", {"s": "tab\t, é, A, back\\slash"}, ["python_literal"]),
    ("{'s': 'a\nb'}", {"s": "a\nb"}, ["python_literal"]),
    ('{"x": 1}{"x": 1}', {"x": 1}, ["repeated_object"]),
    ('{"x": 1, "s": "a"}\n{"s": "a", "x": 1}', {"x": 1, "s": "a"}, ["repeated_object"]),
    ('{"list": \\n[1, 2]\\n}', {"list": [1, 2]}, ["stray_escape"]),
    ('{\\t"s": "keep \\\\n and \\n"\\r\\n}', {"s": "keep \\n and \n"}, ["stray_escape"]),
    ('```json\n{"x": 1,}\n```', {"x": 1}, ["fence", "trailing_comma"]),
    ('"{\\"x\\": 1,}"', {"x": 1}, ["json_string", "trailing_comma"]),
]


@pytest.mark.parametrize(("raw", "value", "folds"), READ_ONLY)
def test_repaired_for_read_tools_only(raw: str, value: Any, folds: list[str]) -> None:
    made = ITEM.normalize(raw, effect="read")
    assert made.problems == ()
    assert made.value == value
    assert rules(made) == folds
    for effect in ("idempotent_write", "write", "destructive"):
        refused = ITEM.normalize(raw, effect=effect)  # type: ignore[arg-type]
        assert refused.error_type == "PARAM_MALFORMED"
        assert refused.next_action == "fix_arguments"
        assert refused.value is None


MALFORMED = [
    ('{"x": 1, "x": 2}', "duplicate_key", "x"),
    ('{"x": 1, "x": 1}', "duplicate_key", "x"),
    ('{"list": [1, {"a": {"k": 1, "b": 2, "k": 1}}]}', "duplicate_key", "list[1].a.k"),
    ('{"x": NaN}', "not_a_number", ""),
    ('{"x": -Infinity}', "not_a_number", ""),
    ('{"x": 1e999}', "number_range", ""),
    ('{"x": -1e999}', "number_range", ""),
    ('{"x": 1e-999}', "number_range", ""),
    ('{"x": ' + "9" * 5000 + "}", "number_range", ""),
    ('{"\\ud83d": 1}', "key_surrogate", ""),
    ('{"a": {"\ud800": 1}}', "key_surrogate", "a"),
    (b'{"s": "\xff"}', "encoding", ""),
    ('{"x": 1}'.encode("utf-16"), "encoding", ""),
    ("[1]", "not_an_object", ""),
    ("[[{}]]", "not_an_object", ""),
    ("7", "not_an_object", ""),
    ("true", "not_an_object", ""),
    ('"text"', "not_an_object", ""),
    ('"[1]"', "not_an_object", ""),
    ('"\\"{\\\\\\"x\\\\\\": 1}\\""', "not_an_object", ""),
    ('"null"', "not_an_object", ""),
    ('{"x": 1}{"x": 2}', "several_objects", ""),
    ('{"x": 1}{"x": 1}{"x": 1}', "several_objects", ""),
    ('{"x": 1}{"x": 1.0}', "several_objects", ""),
    ('{"x": 1}, {"x": 1}', "malformed", ""),
    ('{"x": 1} done', "malformed", ""),
    ('Sure: {"x": 1}', "malformed", ""),
    ("x", "malformed", ""),
    ('{"x": 1}}', "malformed", ""),
    ('{"x": listt"}', "malformed", "x"),
    ('{"x": 01}', "malformed", "x"),
    ('{"x": 0x10}', "malformed", "x"),
    ('{"x": 1 // one\n}', "malformed", "x"),
    ('{"x" 1}', "malformed", "x"),
    ("{x: 1}", "malformed", ""),
    ('{"x": 1 "s": 2}', "malformed", "x"),
    ('{"list": [1 2]}', "malformed", "list[0]"),
    ('{"list": [1,, 2]}', "malformed", "list[1]"),
    ('{"list": [,]}', "malformed", "list[0]"),
    ("{,}", "malformed", ""),
    ('{"list": [1}', "malformed", "list[0]"),
    ('{"s": "a\\qb"}', "malformed", "s"),
    ('{"s": "\\u12"}', "malformed", "s"),
    ("{'s': 'a\\qb'}", "malformed", ""),
    ('{"flag": TRUE}', "malformed", "flag"),
    ('{"x": (1)}', "malformed", "x"),
    ('```json\n{"x": 1}\n```\n```json\n{"x": 1}\n```', "malformed", ""),
    ('```json\n{"x": 1}\n``` as asked', "malformed", ""),
]


@pytest.mark.parametrize("effect", ["read", "write"])
@pytest.mark.parametrize(("raw", "rule", "path"), MALFORMED)
def test_malformed_for_every_tool(raw: Any, rule: str, path: str, effect: Any) -> None:
    made = ITEM.normalize(raw, effect=effect)
    assert made.value is None
    assert made.error_type == "PARAM_MALFORMED"
    assert made.next_action == "fix_arguments"
    ((problem),) = made.problems
    assert (problem.rule, problem.path) == (rule, path)
    assert "cut off" not in made.message


TRUNCATED = [
    ("{", ""),
    ('{"', ""),
    ('{"s', ""),
    ('{"s"', "s"),
    ('{"s":', "s"),
    ('{"s": "Revenue rose by', "s"),
    ('{"s": "ends in a backslash\\', "s"),
    ('{"s": "half an escape \\u00', "s"),
    ('{"s": "line\nbreak', "s"),
    ('{"x": 25', "x"),
    ('{"x": -', "x"),
    ('{"x": 2.', "x"),
    ('{"x": 2e', "x"),
    ('{"x": 1,', "x"),
    ('{"x": 1, ', "x"),
    ('{"flag": tru', "flag"),
    ('{"flag": n', "flag"),
    ('{"list": ["make build", "make test"', "list[1]"),
    ('{"list": [', "list[0]"),
    ('{"list": [1, [2, {"a": "b', "list[1][1].a"),
    ('{"x": 1, "list": []', "list"),
    ('"{\\"x\\": 1', ""),
    ('"{\\"x\\": 1"', "x"),
    ('```json\n{"x": 1', ""),
    ('```json\n{"x": 1}', ""),
]


@pytest.mark.parametrize("effect", ["read", "write"])
@pytest.mark.parametrize(("raw", "path"), TRUNCATED)
def test_truncated_is_never_completed(raw: str, path: str, effect: Any) -> None:
    made = ITEM.normalize(raw, effect=effect)
    assert made.value is None
    assert made.error_type == "PARAM_TRUNCATED"
    assert made.next_action == "fix_arguments"
    assert made.problems[0].path == path
    assert "cut off" in made.message
    assert "smaller" in made.message


def test_repaired_text_is_as_strict_as_any_other() -> None:
    made = ITEM.normalize("{'x': 1, 'x': 2}", effect="read")
    assert [(problem.rule, problem.path) for problem in made.problems] == [("duplicate_key", "x")]
    assert ITEM.normalize("{'x': 1e999}", effect="read").problems[0].rule == "number_range"


def test_truncated_python_text_is_called_truncated_where_it_would_have_been_repaired() -> None:
    assert ITEM.normalize("{'s': 'a', 'x': 1", effect="read").error_type == "PARAM_TRUNCATED"


@pytest.mark.parametrize("raw", ["", "null", None, "   "])
def test_no_arguments_where_something_is_required(raw: Any) -> None:
    made = NEEDS.normalize(raw)
    assert (made.value, made.error_type, made.next_action) == (None, "PARAM_MISSING", "fix_arguments")
    assert "order_id" in made.message


def test_an_empty_object_lacks_an_id_that_only_the_user_knows() -> None:
    made = NEEDS.normalize("{}")
    assert (made.value, made.error_type, made.next_action) == ({}, "PARAM_MISSING", "ask_user")


def test_the_position_and_the_allowed_values_are_named() -> None:
    schema = {"type": "object", "properties": {"action": {"enum": ["list_windows", "click"]}}}
    made = ArgumentSchema.compile(schema).normalize('{"action": listt_windows"}')
    assert "at character 12" in made.message
    assert '"list_windows", "click"' in made.message
    assert "listt_windows" in made.message


@pytest.mark.parametrize(
    ("raw", "hint"),
    [
        ("{'x': 1}", "double quotes"),
        ('{"flag": True}', "write true"),
        ('{"flag": False}', "write false"),
        ('{"flag": None}', "write null"),
        ('{"x": 1 // one\n}', "no comments"),
        ('{"x": 1, # one\n}', "no comments"),
        ('{"x": 1 , }', "remove the comma"),
        ('{"list": [1,]}', "remove the comma"),
    ],
)
def test_other_languages_get_a_hint(raw: str, hint: str) -> None:
    assert hint in ITEM.normalize(raw, effect="write").message


def test_a_free_form_tool_has_no_wrapper() -> None:
    made = OPEN.normalize({"input": {"x": 1}})
    assert (made.value, made.folds) == ({"input": {"x": 1}}, ())
    empty = ArgumentSchema.compile({"type": "object"}, closed=True)
    assert empty.normalize({"input": {}}).value == {}


@pytest.mark.parametrize("depth", [64, 65])
@pytest.mark.parametrize("opening", ['{"a":', "["])
def test_depth_is_limited_to_64(depth: int, opening: str) -> None:
    closing = "}" if opening.startswith("{") else "]"
    inner = opening * (depth - 1) + "0" + closing * (depth - 1)
    for raw in ('{"x":' + inner + "}", json.loads('{"x":' + inner + "}")):
        made = OPEN.normalize(raw)
        assert made.problems == () if depth == 64 else made.problems[0].rule == "depth"


def test_brackets_within_strings_are_not_depth() -> None:
    assert OPEN.normalize(json.dumps({"a": "[" * 1000, "b": '\\"{' * 500})).problems == ()


@pytest.mark.parametrize("size", [(1 << 20) - 64, (1 << 20) + 64])
@pytest.mark.parametrize("letter", ["a", "é"])
def test_size_is_limited_to_a_mebibyte(size: int, letter: str) -> None:
    raw = '{"x":"' + letter * (size // len(letter.encode()) - 4) + '"}'
    for sent in (raw, raw.encode(), json.loads(raw), {"x": {"y": json.loads(raw)["x"]}}):
        made = OPEN.normalize(sent)
        assert [problem.rule for problem in made.problems] == (["size"] if size > 1 << 20 else [])


HOSTILE = {
    "open string of escapes": '{"s": "' + '\\"' * 500_000,
    "brackets": "[" * 1_000_000,
    "commas": '{"list":' + "," * 1_000_000,
    "quotes": "'" * 1_000_000,
    "fence": "```" + " " * 1_000_000 + "```",
    "long name": '{"a' + "_" * 1_000_000 + 'a": 1}',
    "digits": '{"x": "' + "9" * 1_000_000 + '"}',
    "exponent": '{"x": "1e999999999"}',
    "duplicates": "{" + ",".join(['"k": 0'] * 100_000) + "}",
    "many names": json.dumps({f"k{number}": 0 for number in range(50_000)}),
}


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_is_answered_in_time(raw: str) -> None:
    begin = time.process_time()
    made = ITEM.normalize(raw, effect="read")
    assert made.problems
    assert len(made.message) < 2000
    assert time.process_time() - begin < 60  # under a second; the square of a million would take many minutes


def test_wrappers_only_where_nothing_is_declared_so() -> None:
    schema = {"type": "object", "properties": {"kwargs": {"type": "object"}, "x": {"type": "integer"}}}
    declared = ArgumentSchema.compile(schema)
    made = declared.normalize('{"kwargs": {"status": "done"}}')
    assert (made.value, made.folds) == ({"kwargs": {"status": "done"}}, ())
    nested = declared.normalize('{"args": {"args": {"x": 1}}}')
    assert [fold.rule for fold in nested.folds] == ["wrapper"]
    assert nested.value == {"args": {"x": 1}}
    text = ITEM.normalize('{"arguments": "{\\"x\\": 1}"}')
    assert text.error_type == "PARAM_UNKNOWN"


def test_a_wrapper_with_siblings_is_refused() -> None:
    for raw in ('{"arguments": {"x": 1}, "s": "a"}', '{"s": "a", "parameters": {"x": 1}}'):
        assert ITEM.normalize(raw, effect="read").error_type == "PARAM_UNKNOWN"
        open_schema = ArgumentSchema.compile({"type": "object", "properties": {"x": {}, "s": {}}})
        assert open_schema.normalize(raw, effect="read").error_type == "PARAM_UNKNOWN"


def test_raw_is_kept_for_the_evidence() -> None:
    assert ITEM.normalize('{"x":  1}').raw == '{"x":  1}'
    assert ITEM.normalize({"x": 1, "s": "é"}).raw == '{"x":1,"s":"é"}'
    assert ITEM.normalize({"x": "1"}).raw == '{"x":"1"}'
    assert ITEM.normalize(b"\xff{").raw == "\\xff{"
    assert ITEM.normalize(None).raw == ""
    assert ITEM.normalize([1]).raw == "<list that could not be read>"  # type: ignore[arg-type]
    long = ITEM.normalize('{"s": "' + "a" * 100_000 + '"}').raw
    assert len(long) < 66_000
    assert long.endswith("more characters)")


def test_raw_does_not_follow_later_changes() -> None:
    made = ITEM.normalize({"x": 1})
    assert made.value is not None
    made.value["tenant"] = "t-1"
    assert made.raw == '{"x":1}'
