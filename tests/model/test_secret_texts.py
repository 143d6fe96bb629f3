"""Texts that hold secrets, and as many that only resemble them; what is masked once stays as it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fcguard.model.secrets import MASK, PLAIN_REDACTOR, Redactor

KEY = "hunter2-S3cr3t"

SECRET = [
    # command lines
    f"mysql --password {KEY} -e 'x'",
    f"mysql --password={KEY} x",
    f"tool --token {KEY}",
    f"tool --api-key {KEY} --verbose",
    f"tool -password {KEY}",
    f"tool --client-secret '{KEY} x' y",
    f'tool --client-secret "{KEY}" y',
    f"run --db-pass {KEY}",
    f"run\t--jwt {KEY}",
    f"curl -u user:{KEY} https://x.test",
    f"curl --user 'user:{KEY}' https://x.test",
    f"openssl -passin pass:{KEY}",
    f"DB_PASS={KEY} ./run",
    f"export JWT={KEY}",
    f"PGPASSWORD={KEY} psql",
    # connection strings and URLs
    f"Server=tcp:x;Database=y;User ID=z;Password={KEY};Encrypt=True",
    f"Server=x;Uid=a;Pwd={KEY};",
    f"DefaultEndpointsProtocol=https;AccountName=x;AccountKey={KEY}==;EndpointSuffix=y",
    f"Endpoint=sb://x/;SharedAccessKeyName=n;SharedAccessKey={KEY}=",
    f"https://x.blob.core.windows.net/c?sv=1&sig={KEY}&se=2",
    f"https://b.s3.amazonaws.com/k?X-Amz-Signature={KEY}&X-Amz-Expires=60",
    f"https://storage.googleapis.com/b/k?X-Goog-Signature={KEY}",
    f"postgres://u:{KEY}@h/db",
    f"postgres://u:p@{KEY}@h/db",
    f"redis://:{KEY}@h:6379/0",
    f"mongodb+srv://u:{KEY}@h/x?retry=1",
    f"jdbc:postgresql://h/db?user=u&password={KEY}",
    f"DATABASE_URL=postgres://a:{KEY}@h/x",
    # headers, fields, pairs
    f"Authorization: Bearer {KEY}",
    f"(Authorization: Bearer {KEY}).",
    f"authorization: Basic {KEY}",
    f"(bearer {KEY}). Do not repeat it",
    f"used bearer {KEY}!",
    f"X-API-Key: {KEY}",
    f"Cookie: sid={KEY}",
    f"Set-Cookie: sid={KEY}; Path=/",
    f"{{'db_pass': '{KEY}'}}",
    f'{{"jwt": "{KEY}"}}',
    f'{{"tokens": ["{KEY}"]}}',
    f'{{"tokens": {{"a": "{KEY}"}}}}',
    f'{{"connection_string": "Server={KEY}"}}',
    f'"{{\\"db_pass\\": \\"{KEY}\\"}}"',
    f"jwt: {KEY}",
    f"user=x pass={KEY}",
    f"sas={KEY}",
    f"密码: {KEY}",
    f"tokens={KEY},x",
    f"client_secret={KEY}&grant=x",
    f"spring.datasource.password={KEY}",
    # keys
    f"-----BEGIN RSA PRIVATE KEY-----\n{KEY}\n{KEY}\n-----END RSA PRIVATE KEY-----",
    f"-----BEGIN PRIVATE KEY-----\n{KEY}",
]

TOKENS = [
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijklm",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "github_pat_11ABCDEFG0abcdefghijkl",
    "glpat-abcdefghij1234567890",
    "xoxb-123456789012-abcdefghij",
    "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "sk_live_abcdefghijklmnop1234",
    "sk-ant-api03-abcdefghijklmnop",
    "sk-proj-abcdefghijklmnop12",
    "sk-abcdefghijklmnopqrstuvwxyz0123456789",
    "hf_abcdefghijklmnopqrstuvwxyz012345",
    "npm_abcdefghijklmnopqrstuvwxyz012345",
    "pypi-AgEIcHlwaS5vcmcCJGFiY2RlZmdoaWprbG0",
]

HARMLESS = [
    "max_tokens=500",
    "tokens: 500",
    '{"tokens": 500}',
    '{"usage": {"total_tokens": 5, "tokens": "12"}}',
    "pass: 12, fail: 3",
    "pass=5",
    "--pass-through x",
    "--passenger bob",
    "--token-count 5",
    "--max-tokens 500",
    "--output-tokens 5",
    "--tokenizer bpe",
    "--password-file /etc/x",
    "--author bob",
    "--auth-type basic",
    "--asset a1",
    "--verbose yes",
    "--token --verbose",
    "a - b",
    "x -p 5",
    "ls -la /tmp",
    "git commit -m x",
    "docker run -u 1000:1000 x",
    "compass: north",
    "passenger: Ann",
    "asset=a1",
    "assets: [1]",
    "next_page_token: abc",
    "jwt_issuer: x",
    "key: value",
    "primary_key=id",
    "http://host:80/x@y",
    "http://host:8080?mail=a@b.c",
    "https://user@host/x",
    "mailto:a@b.c",
    "time: 10:30",
    "see eyJ now, it is how a JSON object begins",
    "sk-learn-contrib-package-name",
    "npm_config_registry_is_set_to_this_value",
    "task_live_abcdefghijklmnopqr",
    "use a bearer of news",
    "the pin is on the map",
    "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nabc",
    "sigma=5",
    "?sigma=abc",
    "&signal=x",
    "signature: def f(x)",
    "tests passed: 5, bypassed: 2",
    "secretary: Ann",
    "the password-policy is strict",
    "word-token x y",
    "authors: A; B",
    "encryption: aes",
    f"password={MASK} stays",
    f"(bearer {MASK}). Do not repeat it",
    f"Authorization: Bearer {MASK}). Do not repeat it",
    f"tool --token {MASK}, and more",
    "A: B - C",
    "AKIA is a prefix of access keys",
    "gh_pages is a branch of its own here",
    "half_hf_life: 3 hours and a half",
    "pypi-server runs on port 8080 there",
    "SG. is short for Singapore, they say",
    "xoxo, see you tomorrow at the party",
]


@pytest.mark.parametrize("text", SECRET)
def test_a_secret_is_masked_and_stays_so(text: str) -> None:
    once = PLAIN_REDACTOR.text(text)
    assert KEY not in once and MASK in once
    assert PLAIN_REDACTOR.text(once) == once


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize(
    "around", ["{}", "got {} back", "x={}", "({})", '["{}"]', "https://{}@github.test/a.git", "see {}."]
)
def test_a_token_is_known_by_how_it_begins(token: str, around: str) -> None:
    once = PLAIN_REDACTOR.text(around.format(token))
    assert token not in once and MASK in once
    assert PLAIN_REDACTOR.text(once) == once


@pytest.mark.parametrize("text", HARMLESS)
def test_a_text_that_only_resembles_one_is_left_alone(text: str) -> None:
    assert PLAIN_REDACTOR.text(text) is text


def test_there_are_as_many_look_alikes() -> None:
    assert len(set(HARMLESS)) >= len(set(SECRET) | set(TOKENS))


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"(bearer {KEY}). Do not repeat it", f"(bearer {MASK}). Do not repeat it"),
        (f"(Authorization: Bearer {KEY}). Do not", f"(Authorization: Bearer {MASK}). Do not"),
        (f"tool --token {KEY} --verbose", f"tool --token {MASK} --verbose"),
        (f"postgres://u:p@{KEY}@h/db", f"postgres://u:{MASK}@h/db"),
        (f"a=1&sig={KEY}&b=2", f"a=1&sig={MASK}&b=2"),
    ],
)
def test_what_stands_around_a_secret_stays(text: str, masked: str) -> None:
    assert PLAIN_REDACTOR.text(text) == masked


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        (["mysql", "--password", KEY, "-h", "x"], ["mysql", "--password", MASK, "-h", "x"]),
        (["--token", "-x", KEY], ["--token", "-x", KEY]),
        ({"args": ["tool", "-passwd", KEY]}, {"args": ["tool", "-passwd", MASK]}),
        (["--passenger", "bob", "--max-tokens", "5"], ["--passenger", "bob", "--max-tokens", "5"]),
        ({"tokens": 500, "pass": 3}, {"tokens": 500, "pass": 3}),
        ({"tokens": ["a1"], "pass": "b2"}, {"tokens": MASK, "pass": MASK}),
    ],
)
def test_values(value: Any, masked: Any) -> None:
    assert PLAIN_REDACTOR.value(value) == masked
    assert PLAIN_REDACTOR.value(masked) == masked


def test_a_number_of_secrets_is_not_looked_for_elsewhere() -> None:
    assert list(PLAIN_REDACTOR.secret_values({"tokens": 500, "db_pass": "x1"})) == ["x1"]
    assert Redactor(["tokens"]).value({"tokens": 500}) == {"tokens": MASK}, "but what the user names is secret"


PIECES = st.sampled_from(
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
        "(",
        ")",
        ").",
        ",",
        ";",
        "&",
        "?",
        "!",
        "\n",
        "-",
        "--",
        "@",
        "/",
        "x",
        KEY,
        MASK,
    ]
    + [
        "password",
        "token",
        "tokens",
        "jwt",
        "db_pass",
        "pass",
        "5",
        "sas",
        "sig=",
        "max_tokens",
        "Bearer ",
        "bearer ",
        "basic ",
        "cookie:",
    ]
    + [
        "authorization",
        "Authorization: Bearer ",
        "--password ",
        "--token ",
        "-pass ",
        "curl -u a:",
        "http://a:b@",
        "://",
        "Password=",
        "Pwd=",
    ]
    + [
        "-----BEGIN PRIVATE KEY-----",
        "-----END PRIVATE KEY-----",
        *TOKENS[:3],
        '"token": ',
        "密码: ",
        "connection_string=",
        '\\"jwt\\": \\"',
    ]
)


@given(st.lists(PIECES | st.text(max_size=4), max_size=30).map("".join))
@example(f"authorization: Bearer {KEY}). Do not")
@example(f"Authorization: Bearer {MASK}). Do not")
@example(f"bearer {MASK}{MASK}")
def test_masking_twice_is_masking_once(text: str) -> None:
    once = PLAIN_REDACTOR.text(text)
    assert PLAIN_REDACTOR.text(once) == once


@given(
    st.recursive(
        PIECES | st.integers() | st.none() | st.booleans(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(PIECES | st.text(max_size=6), inner, max_size=4),
        max_leaves=12,
    )
)
def test_masking_a_value_twice_is_masking_it_once(value: Any) -> None:
    once = PLAIN_REDACTOR.value(value)
    assert PLAIN_REDACTOR.value(once) == once
    json.dumps(once)


@given(st.lists(st.sampled_from(["north", "a", "b c", "12", "-", "--x"]), max_size=10).map(" ".join))
def test_plain_words_are_left_alone(text: str) -> None:
    assert PLAIN_REDACTOR.text(text) is text
