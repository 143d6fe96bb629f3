"""Artifacts: secrets are masked by what the content is, and content without any stays byte for byte what it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fcguard.model.secrets import Redactor
from fcguard.results.masking import masked

KNOWING = Redactor(("formula",), ("swordfish-9",))


@pytest.mark.parametrize(
    ("media_type", "before", "after"),
    [
        ("application/json", '{"a": 1, "password": "x1"}', '{"a":1,"password":"[redacted]"}'),
        ("application/problem+json; charset=utf-8", '{"formula": "x1"}', '{"formula":"[redacted]"}'),
        ("application/json", '{"a": "is swordfish-9"}', '{"a":"is [redacted]"}'),
        ("application/json", '{"password": "x1", "cut', '{"password": "[redacted]", "cut'),
        ("application/x-ndjson", '{"password": "x1"}\n{"b": 1}', '{"password": "[redacted]"}\n{"b": 1}'),
        ("text/plain", "password=x1 swordfish-9", "password=[redacted] [redacted]"),
        ("text/csv", "id,password\n1,x1\n2,\n3\n", "id,password\n1,[redacted]\n2,\n3\n"),
        ("text/csv", "id,formula\r\n1,x1\r\n", "id,formula\r\n1,[redacted]\r\n"),
        ("text/csv", "id,note\n1,swordfish-9\n", "id,note\n1,[redacted]\n"),
    ],
)
def test_secrets_are_masked(media_type: str, before: str, after: str) -> None:
    made = masked(before.encode(), media_type, KNOWING).decode()
    assert made.replace('": ', '":').replace(", ", ",") == after.replace('": ', '":').replace(", ", ",")


@pytest.mark.parametrize(
    ("media_type", "content"),
    [
        ("application/json", b'{"a":  1, "b": [1.0, "x"]}'),
        ("text/plain", b"nothing \xff here\r\n"),
        ("text/csv", b'id,name\r\n1,"a, b"\r\n'),
        ("text/csv", b""),
        ("text/csv", b'id\n"' + b"x" * 200_000 + b'"\n'),
        ("image/png", b"password=x1"),
        ("", b"password=x1"),
    ],
)
def test_what_holds_none_stays_as_it_was(media_type: str, content: bytes) -> None:
    assert masked(content, media_type, KNOWING) == content


def test_what_is_nested_too_deep_is_read_as_text() -> None:
    deep: Any = '{"a":' * 100_000 + '{"password": "x1"}' + "}" * 100_000
    assert b"x1" not in masked(deep.encode(), "application/json", KNOWING)
    assert json.loads(masked(b'{"password": ["x1"]}', "application/json", KNOWING)) == {"password": "[redacted]"}
