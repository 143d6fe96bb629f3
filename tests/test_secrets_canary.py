"""A secret goes to the tool, and to nobody else: not into envelopes, ledgers, log lines or what a model reads."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field

from fcguard import Applied, Goal, Guard, Inconclusive, Intent, MemoryStore, NotApplied, SQLiteStore, Tool, Violation
from tests.conftest import ANY_OBJECT

CANARY = "c4n4ry-7f3e9a1b5d"


class Watched:
    """A guard whose every trace can be searched."""

    def __init__(self, folder: Path, caplog: Any) -> None:
        self.folder, self.caplog = folder, caplog
        self.guard = Guard(store=SQLiteStore(folder / "ledger.db"), evidence_dir=folder / "evidence")
        self.seen: list[Any] = []

    def register(self, fn: Callable[..., Any], parameters: Any = ANY_OBJECT, **options: Any) -> None:
        def tool(**keywords: Any) -> Any:
            self.seen.append(keywords)
            return fn(**keywords)

        self.guard.register(Tool(name="tool", parameters=parameters, fn=tool, **options))

    def call(self, arguments: Any, name: str = "tool") -> Any:
        with self.guard.task("canary"):
            result = self.guard.run(Intent(name, arguments))
        list(self.guard.store.calls())
        return result

    def leaks(self, result: Any, *, with_data: bool = True) -> list[str]:
        """Name the places where the canary is found."""
        envelope = result.model_dump(mode="json")
        if not with_data:  # a read's own data belongs to its caller
            envelope.pop("data")
        places = {"envelope": json.dumps(envelope), "repr": repr(result) if with_data else "", "log": self.caplog.text}
        if not result.success:
            places["for_model"] = result.for_model()
            places["problems"] = repr(result.problems)
        self.guard.close()
        found = [name for name, text in places.items() if CANARY in text]
        for file in self.folder.rglob("*"):
            if file.is_file() and CANARY.encode() in file.read_bytes():
                found.append(file.name)
        return found


@pytest.fixture
def watched(tmp_path: Path, caplog: Any) -> Watched:
    caplog.set_level(logging.DEBUG)
    return Watched(tmp_path, caplog)


def given(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


ARGUMENTS: list[tuple[str, Any, Any, dict[str, Any]]] = [
    ("by name", ANY_OBJECT, {"password": CANARY}, {}),
    ("by camel case", ANY_OBJECT, {"clientSecret": CANARY, "X-Api-Key": CANARY}, {}),
    ("as a number of digits", ANY_OBJECT, {"pin": CANARY}, {}),
    ("by redact", ANY_OBJECT, {"formula": CANARY}, {"redact": ("formula",)}),
    (
        "by redact in a closed schema",
        given({"formula": {"type": "string"}}),
        {"formula": CANARY},
        {"redact": ("formula",)},
    ),
    ("writeOnly", given({"formula": {"type": "string", "writeOnly": True}}), {"formula": CANARY}, {}),
    ("format", given({"formula": {"type": "string", "format": "password"}}), {"formula": CANARY}, {}),
    ("nested", ANY_OBJECT, {"a": [{"b": {"access_token": CANARY}}]}, {}),
    ("a whole object", ANY_OBJECT, {"credentials": {"user": "u", "key": [CANARY]}}, {}),
    ("inside JSON text", ANY_OBJECT, {"body": json.dumps({"password": CANARY})}, {}),
    ("inside JSON text of JSON text", ANY_OBJECT, {"body": json.dumps({"in": json.dumps({"password": CANARY})})}, {}),
    ("a nested object inside JSON text", ANY_OBJECT, {"body": json.dumps({"credentials": {"k": CANARY}})}, {}),
    ("a header", ANY_OBJECT, {"headers": {"Authorization": f"Bearer {CANARY}"}}, {}),
    ("a header in text", ANY_OBJECT, {"curl": f"curl -H 'Authorization: Bearer {CANARY}' http://x"}, {}),
    ("a URL", ANY_OBJECT, {"dsn": f"postgres://app:{CANARY}@db/x"}, {}),
    ("a query", ANY_OBJECT, {"url": f"https://x/y?a=1&api_key={CANARY}&b=2"}, {}),
]


@pytest.mark.parametrize(
    ("parameters", "arguments", "options"), [row[1:] for row in ARGUMENTS], ids=[row[0] for row in ARGUMENTS]
)
@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("effect", ["read", "write"])
@pytest.mark.parametrize("outcome", ["returns", "raises", "refused"])
def test_a_secret_argument_reaches_the_tool_and_nobody_else(
    watched: Watched, parameters: Any, arguments: Any, options: dict[str, Any], as_text: bool, effect: Any, outcome: str
) -> None:
    def fn(**keywords: Any) -> Any:
        if outcome == "raises":
            raise ValueError(f"the server said no to {keywords}")
        return "fine"

    def rule(call: Any) -> Any:
        return Violation("NOT_NOW", "not now") if outcome == "refused" else None

    watched.register(fn, parameters, effect=effect, rules=(rule,), **options)
    result = watched.call(json.dumps(arguments) if as_text else arguments)
    assert result.success is (outcome == "returns")
    assert watched.seen == ([] if outcome == "refused" else [arguments])
    assert watched.leaks(result) == []


@pytest.mark.parametrize("effect", ["read", "write"])
def test_an_exception_that_quotes_the_secret_alone_is_masked(watched: Watched, effect: Any) -> None:
    def fn(password: str) -> None:
        raise ValueError(f"login failed for {password!r}")

    watched.register(fn, effect=effect)
    result = watched.call({"password": CANARY})
    assert watched.leaks(result) == []
    assert "login failed" in result.message


@pytest.mark.parametrize(
    "text", [f'{{"password": "{CANARY}"', f'{{"password": "{CANARY}", "password": "x"}}', f"password={CANARY}"]
)
def test_arguments_that_cannot_be_read_are_masked_all_the_same(watched: Watched, text: str) -> None:
    watched.register(lambda **_: None)
    result = watched.call(text)
    assert (result.success, result.attempts) == (False, 0)
    assert watched.leaks(result) == []


@pytest.mark.parametrize(
    "parameters",
    [
        given({"password": {"type": "string", "maxLength": 3}}),
        given({"password": {"type": "string", "enum": ["x"]}}),
        given({"password": {"type": "integer"}}),
        given({"other": {"type": "string"}}),
    ],
)
def test_a_refusal_does_not_quote_the_secret(watched: Watched, parameters: Any) -> None:
    watched.register(lambda **_: None, parameters)
    result = watched.call({"password": CANARY})
    assert (result.success, result.attempts) == (False, 0)
    assert watched.leaks(result) == []


@pytest.mark.parametrize("name", [f"tool?token={CANARY}", f"password: {CANARY}", f"https://u:{CANARY}@host/tool"])
def test_a_tool_name_is_masked_too(watched: Watched, name: str) -> None:
    watched.register(lambda **_: None)
    result = watched.call({}, name)
    assert result.error_type == "TOOL_UNKNOWN"
    assert watched.leaks(result) == []


@pytest.mark.parametrize(
    "value",
    [
        {"token": CANARY},
        {"items": [{"secret": {"deep": CANARY}}]},
        {"log": f"Authorization: Bearer {CANARY}"},
        [{"api_key": CANARY}],
        f'{{"password": "{CANARY}"}}',
    ],
)
@pytest.mark.parametrize("effect", ["read", "write"])
def test_a_secret_in_a_result_is_its_callers_and_not_the_ledgers(watched: Watched, value: Any, effect: Any) -> None:
    watched.register(lambda: value, effect=effect)
    result = watched.call({})
    assert result.data == value
    assert watched.leaks(result, with_data=False) == []


def test_an_argument_that_comes_back_in_the_result_is_masked_in_the_ledger(watched: Watched) -> None:
    watched.register(lambda password: {"echo": f"you sent {password}", "list": [password]}, effect="read")
    result = watched.call({"password": CANARY})
    assert result.data["list"] == [CANARY]
    assert watched.leaks(result, with_data=False) == []


@pytest.mark.parametrize(
    "answer",
    [
        Inconclusive(f"password={CANARY}"),
        NotApplied(f"password={CANARY}"),
        NotApplied(CANARY),
        Inconclusive(CANARY),
        ValueError(f"no row for {CANARY}"),
    ],
)
def test_what_a_confirmation_says_is_masked(watched: Watched, answer: Any) -> None:
    def fn(**_: Any) -> None:
        raise TimeoutError(f"waiting for {CANARY}")

    def confirm(call: Any) -> Any:
        if isinstance(answer, ValueError):
            raise answer
        return answer

    watched.register(fn, confirm=confirm)
    result = watched.call({"password": CANARY})
    assert result.effect == "unknown"
    assert watched.leaks(result) == []


def test_what_a_confirmation_found_is_masked_in_the_ledger(watched: Watched) -> None:
    def fn(**_: Any) -> None:
        raise TimeoutError

    watched.register(fn, confirm=lambda call: Applied({"token": CANARY}))
    result = watched.call({})
    assert result.data == {"token": CANARY}
    assert watched.leaks(result, with_data=False) == []


def test_failed_when_and_rules_may_not_quote_it_either(watched: Watched) -> None:
    watched.register(lambda password: "no", failed_when=lambda data: f"refused for {CANARY}")
    result = watched.call({"password": CANARY})
    assert result.error_type == "TOOL_ERROR"
    assert watched.leaks(result) == []


def test_a_violation_that_quotes_it_is_masked(watched: Watched) -> None:
    def rule(call: Any) -> Any:
        return Violation("NO", f"{call.arguments['password']} is too short")

    watched.register(lambda **_: None, rules=(rule,))
    result = watched.call({"password": CANARY})
    assert (result.error_type, result.message) == ("NO", "[redacted] is too short")
    assert watched.leaks(result) == []


def test_a_constraint_that_quotes_it_is_masked(watched: Watched) -> None:
    watched.register(lambda **_: None, constraints=(lambda call: Violation("NO", f"no {call.arguments['password']}"),))
    result = watched.call({"password": CANARY})
    assert result.error_type == "NO"
    assert watched.leaks(result) == []


def test_a_typed_function_gets_the_real_value(guard: Guard) -> None:
    seen: list[str] = []

    @guard.tool(effect="read")
    def login(user: str, password: Annotated[str, Field(min_length=3)]) -> str:
        seen.append(password)
        return user

    result = guard.call("login", {"user": "ann", "password": CANARY})
    assert (seen, result.data) == ([CANARY], "ann")
    assert result.normalized_args == {"user": "ann", "password": "[redacted]"}


def test_short_secrets_do_not_black_out_everything(tmp_path: Path) -> None:
    def fn(pin: str, text: str) -> None:
        raise ValueError("a1 is in the text of the message")

    with Guard(store=MemoryStore(), evidence_dir=tmp_path) as guard:
        guard.tool(fn, name="tool", effect="read")
        assert "a1 is in the text" in guard.call("tool", {"pin": "a1", "text": "x"}).message


def rows_with_secret() -> list[dict[str, Any]]:
    return [{"row": number, "password": CANARY, "text": f"token={CANARY}"} for number in range(40)]


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        (rows_with_secret(), '"row":3'),
        ({"nested": {"rows": rows_with_secret()}}, '"row":3'),
        (json.dumps(rows_with_secret()), '"row":3'),
        (f"password={CANARY}\n" + "line\n" * 100, "line"),
        (f"Authorization: Bearer {CANARY}\n" + "line\n" * 100, "line"),
        (f"row for {CANARY}\n" + "line\n" * 100, "line"),  # known from the arguments
    ],
)
def test_a_result_that_becomes_a_file_is_masked_there(watched: Watched, data: Any, kept: str) -> None:
    watched.register(lambda **_: data, effect="read", max_result_chars=200)
    result = watched.call({"password": CANARY})
    assert result.success
    (evidence,) = (one for one in result.evidence if one.type != "log")
    content = (watched.folder / "evidence" / evidence.ref).read_text()
    assert CANARY not in content
    assert kept in content.replace(" ", "")
    assert watched.leaks(result, with_data=False) == []


def test_a_confirmation_that_becomes_a_file_is_masked_there(watched: Watched) -> None:
    def fail(**_: Any) -> None:
        raise TimeoutError

    watched.register(fail, confirm=lambda call: Applied(rows_with_secret()), max_result_chars=200)
    result = watched.call({"a": 1})
    assert result.success
    assert watched.leaks(result, with_data=False) == []


def test_what_a_task_and_a_model_say_is_masked(watched: Watched) -> None:
    goal = Goal(objective=f"log in with password={CANARY}", success_criteria=(f"token={CANARY} works",), entry="ui")
    watched.register(lambda **_: 1)
    with watched.guard.task(goal, risk="high"):
        result = watched.guard.run(Intent("tool", {"password": CANARY}, call_id=f"call-{CANARY}"))
    list(watched.guard.store.calls())
    (opened, *_) = watched.guard.store.events(request_id=result.request_id)
    payload = json.loads(opened.payload)
    said = {name: payload[name] for name in ("goal", "entry", "risk", "success_criteria", "model_call_id")}
    assert said == {
        "goal": "log in with password=[redacted]",
        "entry": "ui",
        "risk": "high",
        "success_criteria": ["token=[redacted] works"],
        "model_call_id": "call-[redacted]",
    }
    assert watched.leaks(result) == []
