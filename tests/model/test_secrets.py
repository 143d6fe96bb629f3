"""Secrets are masked by name, by form and by value; the rest of a text stays as it is."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fcguard.model.frozen import freeze
from fcguard.model.secrets import MASK, PLAIN_REDACTOR, Redactor, is_secret_name, may_hold_secrets, secret_properties

CANARY = "c4n4ry-7f3e9a1b5d"

SECRET = """password passwd PassPhrase passcode secret clientSecret client_secret token accessToken X-Api-Key apikey api_key access-key
private_key authorization Authorization auth auth_header credentials cookie set-cookie sessionKey bearer pin otp cvv cvv2 pwd""".split()
HARMLESS = """author authority max_tokens token_count token_usage tokenizer pinned spin option copper compass passenger
encryption keyboard monkey order_id secretary_x name""".replace("secretary_x", "").split()


@pytest.mark.parametrize("name", SECRET)
def test_secret_names(name: str) -> None:
    assert is_secret_name(name)
    assert PLAIN_REDACTOR.value({name: CANARY}) == {name: MASK}


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_names(name: str) -> None:
    assert not is_secret_name(name)
    assert PLAIN_REDACTOR.value({name: "x"}) == {name: "x"}


def test_nothing_and_flags_under_a_secret_name_stay() -> None:
    value = {"password": None, "has_token": True, "secret": False}
    assert PLAIN_REDACTOR.value(value) is value


def test_what_holds_no_secret_is_the_same_object() -> None:
    value = {"a": [1, 2.5, "x", {"b": "c: d"}], "e": "f=g"}
    assert PLAIN_REDACTOR.value(value) is value
    assert PLAIN_REDACTOR.value("plain") == "plain"


def test_only_the_secret_parts_are_replaced() -> None:
    value = {"a": {"password": "x", "b": [1]}, "c": ["d"]}
    masked = PLAIN_REDACTOR.value(value)
    assert masked == {"a": {"password": MASK, "b": [1]}, "c": ["d"]}
    assert masked["c"] is value["c"]
    assert value["a"]["password"] == "x"


def test_frozen_arguments_are_masked_too() -> None:
    assert PLAIN_REDACTOR.value(freeze({"a": [{"token": "x"}]})) == {"a": [{"token": MASK}]}


TEXTS = [
    (f'{{"password": "{CANARY}", "a": 1}}', f'{{"password": "{MASK}", "a": 1}}'),
    (f"{{'password': '{CANARY}', 'a': 1}}", f"{{'password': '{MASK}', 'a': 1}}"),
    (f"{{'password': \"{CANARY}'s\", 'a': 1}}", f"{{'password': \"{MASK}\", 'a': 1}}"),
    ('{"pin": 1234, "a": 1}', f'{{"pin": "{MASK}", "a": 1}}'),
    ('{"token": null, "secret": true}', '{"token": null, "secret": true}'),
    ('{"token": {"a": {"b": 1}}, "c": 2}', f'{{"token": "{MASK}", "c": 2}}'),
    ('{"token": [["a"], "b"], "c": 2}', f'{{"token": "{MASK}", "c": 2}}'),
    ('{"token": [["a"', f'{{"token": "{MASK}"'),
    ('{"token": "never closed', f'{{"token": "{MASK}"'),
    (r'{"password": "a\"b\\", "c": 2}', f'{{"password": "{MASK}", "c": 2}}'),
    ('{"password":', '{"password":'),
    (f"Authorization: Bearer {CANARY}", f"Authorization: Bearer {MASK}"),
    (f"use bearer {CANARY}, please", f"use bearer {MASK}, please"),
    (f"Cookie: a=b; session={CANARY}", f"Cookie: {MASK}"),
    (f"password={CANARY}&next=1", f"password={MASK}&next=1"),
    (f'password="{CANARY} and more" next', f'password="{MASK}" next'),
    (f"password='{CANARY}", f"password='{MASK}'"),
    ("password=", "password="),
    (f"https://x/y?a=1&api_key={CANARY}&b=2", f"https://x/y?a=1&api_key={MASK}&b=2"),
    (f"url: https://x?token={CANARY}", f"url: https://x?token={MASK}"),
    (f"postgres://app:{CANARY}@db:5432/x", f"postgres://app:{MASK}@db:5432/x"),
    ("a: b, c = d; max_tokens=500; http://host:80/x", "a: b, c = d; max_tokens=500; http://host:80/x"),
]


@pytest.mark.parametrize(("text", "masked"), TEXTS)
def test_forms_of_secrets_in_text(text: str, masked: str) -> None:
    assert PLAIN_REDACTOR.text(text) == masked


def nested(value: Any, depth: int) -> str:
    text = json.dumps(value)
    for _ in range(depth):
        text = json.dumps({"in": text})
    return text


def opened(text: str, depth: int) -> Any:
    for _ in range(depth):
        text = json.loads(text)["in"]
    return json.loads(text)


@given(
    st.dictionaries(st.sampled_from(["password", "name", "items"]), st.text(max_size=20) | st.integers(), min_size=1),
    st.integers(0, 3),
)
@example({"password": '"'}, 2)
@example({"password": "\\", "name": "n"}, 2)
@example({"password": '\\"', "name": "n"}, 1)
def test_json_within_json_text_stays_json(value: dict[str, Any], depth: int) -> None:
    read = opened(PLAIN_REDACTOR.text(nested(value, depth)), depth)
    assert set(read) == set(value)
    assert read.get("password", MASK) == MASK


HINTS = st.sampled_from(
    [
        '"',
        "'",
        "\\",
        ":",
        "=",
        " ",
        "{",
        "}",
        "[",
        "]",
        ",",
        "&",
        "password",
        "token",
        "Bearer ",
        "cookie:",
        "http://a:b@",
        MASK,
        "x",
        "authorization",
    ]
)


@given(st.lists(HINTS | st.text(max_size=4), max_size=30).map("".join))
def test_masking_twice_is_masking_once(text: str) -> None:
    once = PLAIN_REDACTOR.text(text)
    assert PLAIN_REDACTOR.text(once) == once


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | HINTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(HINTS | st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_masking_values_twice_is_masking_them_once(value: Any) -> None:
    once = PLAIN_REDACTOR.value(value)
    assert PLAIN_REDACTOR.value(once) == once
    json.dumps(once)


@given(st.text(min_size=8, max_size=30).filter(lambda text: text.strip() and not set(text) <= set(MASK)))
@example('with "quotes" and \\ slashes')
@example("ünïcödé ☃ value")
@example("a b&c=d/e?f")
def test_a_known_secret_is_found_in_every_form(secret: str) -> None:
    redactor = PLAIN_REDACTOR.knowing({"password": secret})
    from urllib.parse import quote, quote_plus

    for form in (
        secret,
        json.dumps(secret),
        repr(secret),
        quote(secret, safe="", errors="replace"),
        quote_plus(secret, errors="replace"),
    ):
        assert form.strip("\"'") not in redactor.text(f"x {form} y").replace(MASK, "")


def test_a_short_secret_is_masked_as_a_word_only() -> None:
    redactor = PLAIN_REDACTOR.knowing({"pin": 2024, "otp": "abc"})
    assert (
        redactor.text("pin 2024 of order 120245, at 2024-01, abc") == f"pin {MASK} of order 120245, at {MASK}-01, abc"
    )


def test_the_secrets_of_nested_arguments_are_known() -> None:
    arguments = {"a": [{"credentials": {"user": "somebody-long", "keys": ["key-number-one"]}}], "b": "harmless-text"}
    assert sorted(PLAIN_REDACTOR.secret_values(arguments)) == ["key-number-one", "somebody-long"]
    redactor = PLAIN_REDACTOR.knowing(arguments)
    assert redactor.value(["somebody-long", "harmless-text"]) == [MASK, "harmless-text"]


def test_without_secrets_nothing_is_built() -> None:
    assert PLAIN_REDACTOR.knowing({"a": 1}) is PLAIN_REDACTOR


def test_more_values_are_added_to_those_known() -> None:
    redactor = Redactor(["formula"], ["first-secret"]).with_values(["second-secret"])
    assert redactor.text("first-secret second-secret") == f"{MASK} {MASK}"
    assert redactor.value({"formula": 1.5}) == {"formula": MASK}


def test_a_longer_secret_goes_before_a_shorter_one_within_it() -> None:
    redactor = Redactor(values=["secret-abc", "secret-abc-def"])
    assert redactor.text("secret-abc-def") == MASK


BIG = 1_000_000
EVIL = [
    "a-" * (BIG // 2),
    "password" * (BIG // 8),
    "password " * (BIG // 9),
    "password=" * (BIG // 9),
    "password:" + " " * BIG,
    '"' * BIG,
    "\\" * BIG,
    '\\"' * (BIG // 2),
    '"a":' * (BIG // 4),
    '"password":"' * (BIG // 12),
    '"password":{' * (BIG // 12),
    '"password":' + "[" * BIG,
    '"password":' + '"' + "\\" * BIG,
    '\\"password\\": "' * (BIG // 15),
    "'password': " * (BIG // 12),
    "authorization " * (BIG // 14),
    "authorization:" * (BIG // 14),
    "bearer " * (BIG // 7),
    "cookie:" * (BIG // 7),
    "http://a:" * (BIG // 9),
    "http://" * (BIG // 7),
    "x: " * (BIG // 3),
    "a.b-c_d" * (BIG // 7) + "=",
    " " * BIG + ":",
    json.dumps([{"name": "x" * 50, "password": "y" * 20}] * 10_000),
]


@pytest.mark.parametrize("text", EVIL, ids=[text[:16] for text in EVIL])
def test_the_work_is_linear(text: str) -> None:
    began = time.process_time()
    PLAIN_REDACTOR.text(text)
    assert time.process_time() - began < 60  # under a second; the square of a million would take many minutes


@given(st.text(alphabet="ab\\\"':={}[],- \n", max_size=200))
@settings(max_examples=300)
def test_texts_of_punctuation_do_no_harm(text: str) -> None:
    assert isinstance(PLAIN_REDACTOR.text(text), str)


# -- schemas --------------------------------------------------------------------------------------------------------------


def test_what_a_schema_marks_is_secret_at_any_depth() -> None:
    schema = {
        "type": "object",
        "properties": {
            "formula": {"type": "string", "writeOnly": True},
            "nested": {"items": [{"properties": {"code": {"format": "password"}, "plain": {"writeOnly": "yes"}}}]},
        },
        "$defs": {"D": {"properties": {"inner": {"writeOnly": True}}}},
    }
    assert secret_properties(schema, ["extra"]) == {"formula", "code", "inner", "extra"}


def deep(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"properties": {"x": {"writeOnly": True}}}
    for _ in range(depth):
        schema = {"properties": {"a": schema}, "additionalProperties": False}
    return schema


def test_a_schema_too_deep_to_look_into_may_hold_anything() -> None:
    assert secret_properties(deep(100)) == frozenset()
    assert may_hold_secrets(deep(100), ())


@pytest.mark.parametrize(
    ("schema", "may"),
    [
        ({"type": "object", "properties": {}, "additionalProperties": False}, False),
        ({"type": "object"}, True),
        ({"type": ["object", "null"]}, True),
        ({"properties": {"a": {"type": "string"}}}, True),
        ({"properties": {"a": {"type": "string"}}, "additionalProperties": False}, False),
        ({"properties": {"password": {"type": "string"}}, "additionalProperties": False}, True),
        ({"properties": {"a": {"type": "object"}}, "additionalProperties": False}, True),
        (
            {
                "properties": {"a": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/A"}]}},
                "additionalProperties": False,
            },
            True,
        ),
        ({"properties": {"a": {"items": {"type": "integer"}}}, "additionalProperties": False}, False),
    ],
)
def test_whether_arguments_may_hold_secrets(schema: dict[str, Any], may: bool) -> None:
    assert may_hold_secrets(schema, ()) is may
    assert may_hold_secrets(schema, ("x",)) is True
