"""The options of a guard that are about telemetry, end to end: `span_detail`, `capture_content`, `capture_logs`."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import logging
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from opentelemetry.trace import StatusCode
from pydantic import Field

from fcguard.errors import ConfigurationError
from fcguard.guard import Guard
from fcguard.model.call_info import current_call
from fcguard.model.context import TaskContext
from fcguard.model.outcome import Applied
from fcguard.stores.memory import MemoryStore
from fcguard.stores.payload import body_of
from fcguard.telemetry import semconv as names
from fcguard.telemetry.capture import LogCapture
from fcguard.telemetry.content import CAPTURE_VARIABLE
from tests.telemetry.telemetry_driver import Recorded

Make = Callable[..., Guard]
SECRET = "hunter2-canary"
BEFORE = ["fcguard.context", "fcguard.intent", "fcguard.normalize", "fcguard.validate"]
AFTER = ["fcguard.result", "fcguard.record"]


@pytest.fixture
def make(recorded: Recorded, tmp_path: Path) -> Iterator[Make]:
    """Makes guards whose spans are recorded."""
    made: list[Guard] = []

    def new(**options: Any) -> Guard:
        options.setdefault("store", MemoryStore())
        made.append(Guard(evidence_dir=tmp_path, tracer_provider=recorded.tracer_provider, **options))
        return made[-1]

    yield new
    for guard in made:
        guard.close()


def query(guard: Guard, arguments: Any = {"order_id": "A1"}, *, is_async: bool = False) -> Any:
    if not guard.tools:

        @guard.tool(effect="read")
        def query_order(order_id: Annotated[str, Field(pattern=r"A\d")]) -> dict[str, str]:
            return {"order_id": order_id, "state": "paid"}

    async def main() -> Any:
        return await guard.acall("query_order", arguments)

    with guard.task(goal="look"):
        return asyncio.run(main()) if is_async else guard.call("query_order", arguments)


def below_root(recorded: Recorded) -> list[Any]:
    (root,) = [span for span in recorded.spans if span.parent is None]
    return [span for span in recorded.spans if span.parent is not None and span.parent.span_id == root.context.span_id]


# -- span_detail ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
def test_each_step_has_a_span_below_the_call(make: Make, recorded: Recorded, is_async: bool) -> None:
    assert query(make(span_detail="stages"), is_async=is_async).success
    children = below_root(recorded)
    assert [span.name for span in children] == [*BEFORE, "fcguard.attempt query_order", *AFTER]
    root = recorded.span("execute_tool query_order")
    for span in children:
        assert span.status.status_code is StatusCode.UNSET
        assert root.start_time // 10**6 <= span.start_time // 10**6 + 1
        assert span.start_time <= span.end_time <= root.end_time + 10**6
        if span.name.startswith("fcguard.attempt"):
            continue
        assert dict(span.attributes or {}) == ({"fcguard.stage.count": 0} if span.name == "fcguard.result" else {})


@pytest.mark.parametrize(
    ("arguments", "error", "stages"),
    [
        ({"order_id": "B"}, "PARAM_INVALID", BEFORE),
        ('{"order_id": ', "PARAM_TRUNCATED", BEFORE[:3]),
        ({"order_id": "A1", SECRET: SECRET}, "PARAM_UNKNOWN", BEFORE),
    ],
)
def test_step_that_refuses_has_the_error(
    make: Make, recorded: Recorded, arguments: Any, error: str, stages: list[str]
) -> None:
    assert query(make(span_detail="stages"), arguments).error_type == error
    children = below_root(recorded)
    assert [span.name for span in children][-1] == "fcguard.record"
    refusing = [span for span in children if span.status.status_code is StatusCode.ERROR]
    assert [span.name for span in refusing] in ([stages[-1]], [BEFORE[2]])
    found = dict(refusing[0].attributes or {})
    assert found[names.ERROR_TYPE] == error
    assert set(found) == {names.ERROR_TYPE, names.STAGE_COUNT}
    assert SECRET not in "".join(span.to_json() for span in recorded.spans)


def test_steps_of_a_confirmation_stand_below_its_own_call(make: Make, recorded: Recorded) -> None:
    guard = make(span_detail="stages")

    @guard.tool(effect="read")
    def find_order() -> str:
        return "created"

    @guard.tool(effect="write", confirm=lambda call: Applied(guard.call("find_order", {}).data))
    def create_order() -> str:
        raise ConnectionResetError

    with guard.task(goal="order"):
        assert create_order().outcome_basis == "confirmed"
    assert [span.name for span in below_root(recorded)] == [
        *BEFORE,
        "fcguard.attempt create_order",
        "fcguard.result",
        "fcguard.recover",
        "fcguard.record",
    ]
    read = recorded.span("execute_tool find_order").context.span_id
    assert [span.name for span in recorded.spans if span.parent is not None and span.parent.span_id == read] == [
        *BEFORE,
        "fcguard.attempt find_order",
        *AFTER,
    ]


def test_steps_of_a_retry_are_told_again(make: Make, recorded: Recorded) -> None:
    guard = make(span_detail="stages")
    tries: list[int] = []

    @guard.tool(effect="read")
    def query_order() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionRefusedError
        return "paid"

    with guard.task(goal="look"):
        assert query_order().attempts == 2
    told = [span.name for span in below_root(recorded)]
    assert told.count("fcguard.context") == told.count("fcguard.record") == 1
    assert told.count("fcguard.validate") == told.count("fcguard.attempt query_order") == 2
    assert recorded.span("execute_tool query_order").status.status_code is StatusCode.UNSET


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"span_detail": "call"}, ["execute_tool query_order"]),
        ({"span_detail": "attempts"}, ["execute_tool query_order", "fcguard.attempt query_order"]),
        ({}, ["execute_tool query_order", "fcguard.attempt query_order"]),
    ],
)
def test_less_detail_gives_fewer_spans(
    make: Make, recorded: Recorded, options: dict[str, Any], expected: list[str]
) -> None:
    query(make(**options))
    assert [span.name for span in recorded.spans] == expected


@pytest.mark.parametrize("options", [{"span_detail": "all"}, {"capture_content": "all"}])
def test_words_that_mean_nothing_are_refused(make: Make, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="'all'"):
        make(**options)


# -- capture_content -----------------------------------------------------------------------------------------------------


def login(guard: Guard) -> Any:
    @guard.tool(effect="read")
    def log_in(user: str, password: str) -> dict[str, str]:
        return {"user": user, "token": f"{SECRET}-token", "said": f"you typed {password}"}

    with guard.task(goal="log in"):
        return guard.call("log_in", {"user": "ann", "password": SECRET})


def content(recorded: Recorded) -> dict[str, Any]:
    found = dict(recorded.span("execute_tool log_in").attributes or {})
    return {key: json.loads(value) for key, value in found.items() if key.startswith("gen_ai.tool.call.")}


def test_content_stays_at_home_by_default(make: Make, recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CAPTURE_VARIABLE, raising=False)
    assert login(make()).success
    assert content(recorded) == {}
    assert SECRET not in "".join(span.to_json() for span in recorded.spans)


@pytest.mark.parametrize("asked_by", ["option", "environment"])
def test_redacted_content_masks_secrets(
    make: Make, recorded: Recorded, monkeypatch: pytest.MonkeyPatch, asked_by: str
) -> None:
    if asked_by == "environment":
        monkeypatch.setenv(CAPTURE_VARIABLE, "true")
    assert login(make(**({"capture_content": "redacted"} if asked_by == "option" else {}))).success
    found = content(recorded)
    assert found["gen_ai.tool.call.arguments"]["user"] == "ann"
    assert found["gen_ai.tool.call.result"]["user"] == "ann"
    assert SECRET not in "".join(span.to_json() for span in recorded.spans)


def test_full_content_masks_the_secret_arguments_alone(make: Make, recorded: Recorded) -> None:
    assert login(make(capture_content="full")).success
    found = content(recorded)
    assert found["gen_ai.tool.call.arguments"]["password"] != SECRET
    assert found["gen_ai.tool.call.result"]["token"] == f"{SECRET}-token"


# -- capture_logs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("colour", ["inline", "thread", "async"])
def test_lines_of_a_tool_become_its_evidence(make: Make, tmp_path: Path, colour: str) -> None:
    guard = make(capture_logs=True)
    log = logging.getLogger("shop.orders")

    if colour == "async":

        @guard.tool(effect="write", name="pay")
        async def apay(order_id: str, password: str) -> str:
            await asyncio.sleep(0)
            log.warning("paying %s with %s", order_id, password)
            return "paid"

    else:

        @guard.tool(effect="write", timeout=10.0 if colour == "thread" else None)
        def pay(order_id: str, password: str) -> str:
            log.warning("paying %s with %s", order_id, password)
            return "paid"

    async def main() -> Any:
        return await guard.acall("pay", {"order_id": "A1", "password": SECRET})

    with guard.task(goal="pay"):
        if colour == "async":
            result = asyncio.run(main())
        else:
            result = guard.call("pay", {"order_id": "A1", "password": SECRET})
    log.warning("outside of any call")

    (evidence,) = result.evidence
    assert (evidence.type, evidence.media_type) == ("log", "text/plain")
    path = tmp_path / evidence.ref
    assert path.name == f"{result.request_id}.log"
    (line,) = path.read_text().splitlines()
    assert "WARNING shop.orders [1] paying A1 with " in line
    assert SECRET not in line
    assert evidence.size == path.stat().st_size
    told = [body_of(event) for event in guard.store.events(request_id=result.request_id)]
    kept = [item for body in told for item in body.get("result", {}).get("evidence", ())]
    assert [item["ref"] for item in kept] == [evidence.ref]
    assert SECRET not in json.dumps(told)


def test_lines_of_all_attempts_are_in_one_file(make: Make, tmp_path: Path) -> None:
    guard = make(capture_logs=True)
    tries: list[int] = []

    @guard.tool(effect="read")
    def query_order() -> str:
        tries.append(1)
        logging.getLogger("shop").warning("asking")
        if len(tries) == 1:
            raise ConnectionRefusedError
        return "paid"

    with guard.task(goal="look"):
        (evidence,) = query_order().evidence
    assert [line.split("shop ")[1] for line in (tmp_path / evidence.ref).read_text().splitlines()] == [
        "[1] asking",
        "[2] asking",
    ]


def test_lines_after_the_end_of_a_call_leave_its_evidence_as_it_was(make: Make, tmp_path: Path) -> None:
    guard = make(capture_logs=True)
    go_on, ended = threading.Event(), threading.Event()

    @guard.tool(effect="write", timeout=0.5)
    def pay(password: str) -> str:
        log = logging.getLogger("shop")
        log.warning("sent")
        go_on.wait(60)
        log.warning("answered late to %s", password)
        ended.set()
        return "paid"

    with guard.task(goal="pay"):
        result = guard.call("pay", {"password": SECRET})
    assert result.error_type == "UNCERTAIN_RESULT"
    (evidence,) = [item for item in result.evidence if item.type == "log"]
    path = tmp_path / evidence.ref
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    go_on.set()
    assert ended.wait(60)

    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert "sent" in path.read_text()
    late = path.with_name(f"{result.request_id}.late.log").read_text()
    assert "answered late to " in late
    assert SECRET not in late
    assert [item.ref for item in result.evidence if item.ref.endswith(".late.log")] == []


def test_a_call_without_lines_and_a_guard_without_the_wish_keep_nothing(make: Make, tmp_path: Path) -> None:
    assert query(make(capture_logs=True)).evidence == ()
    guard = make()

    @guard.tool(effect="read")
    def query_order() -> str:
        logging.getLogger("shop").warning("asking")
        return "paid"

    with guard.task(goal="look"):
        assert query_order().evidence == ()
    assert list(tmp_path.rglob("*.log")) == []


def test_two_guards_keep_their_own_lines(make: Make, tmp_path: Path) -> None:
    guards = [
        Guard(store=MemoryStore(), evidence_dir=tmp_path / name, capture_logs=True) for name in ("first", "second")
    ]

    def query_order() -> str:
        logging.getLogger("shop").warning("asking")
        return "paid"

    for guard in guards:
        guard.tool(effect="read")(query_order)
        with guard.task(goal="look"):
            (evidence,) = guard.call("query_order", {}).evidence
        assert (guard.evidence_dir / evidence.ref).read_text().count("asking") == 1
        guard.close()
    assert len(list(tmp_path.rglob("*.log"))) == 2


def test_lines_go_where_the_tasks_evidence_goes(make: Make, tmp_path: Path) -> None:
    guard = make(capture_logs=True)

    @guard.tool(effect="read")
    def query_order() -> str:
        logging.getLogger("shop").warning("asking")
        current_call().attach(b"x", "page.html")
        return "paid"

    own = tmp_path / "task"
    evidence = guard.call("query_order", {}, context=TaskContext(task_id="t", evidence_dir=str(own))).evidence
    assert sorted(item.type for item in evidence) == ["artifact", "log"]
    assert all((own / item.ref).is_file() for item in evidence)
    assert not (tmp_path / "logs").exists()


def test_a_guard_that_is_forgotten_can_go(tmp_path: Path) -> None:
    before = list(logging.getLogger().handlers)
    guard = Guard(store=MemoryStore(), evidence_dir=tmp_path, capture_logs=True)
    (handler,) = [one for one in logging.getLogger().handlers if one not in before]
    assert isinstance(handler, LogCapture)
    known = weakref.ref(guard)
    del guard
    gc.collect()
    assert known() is None
    handler.close()


def test_a_closed_guard_hears_no_more(make: Make) -> None:
    before = list(logging.getLogger().handlers)
    guard = make(capture_logs=True)
    assert len(logging.getLogger().handlers) == len(before) + 1
    guard.close()
    guard.close()
    assert logging.getLogger().handlers == before
