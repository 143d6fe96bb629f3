"""Map the `x-governance` of a field case to fcguard's own options, and play its calls through a real guard."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import json
import sys
import tempfile
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fcguard import Environment, Goal, Guard, Intent, Retry, SQLiteStore, TaskContext, Tool, Usage
from fcguard.approval.approvers import CallbackApprover
from fcguard.approval.request import Decision
from fcguard.constraints.freeze import Freeze
from fcguard.constraints.repeat import NoProgressRepeat
from fcguard.errors import DuplicateToolError, StoreUnavailable
from fcguard.model.identity import digest_of, effect_key_of
from fcguard.model.states import CallState
from fcguard.rules.command import shell
from fcguard.rules.database import sql
from fcguard.rules.filesystem import paths
from fcguard.rules.host_rule import hosts
from fcguard.stores.base import CallQuery, Enter, Event, Identity, Move, Open
from fcguard.stores.journal import place_of
from fcguard.testing.clock import FakeClock


class UnknownSetting(Exception):
    """The case uses something that has no meaning here; it fails instead of being skipped."""


CONTEXT: contextvars.ContextVar[Mapping[str, Any]] = contextvars.ContextVar("context", default={})  # noqa: B039 - never changed
SILENT = {
    "registry",
    "known_prefixes",
    "idempotent",
    "side_effect",
    "cache_s",
    "streaming",
    "allow_subdomains",
    "dialect",
    "approval_timeout_s",
}


class FailingStore(SQLiteStore):
    """A ledger whose disk is full when an outcome is written."""

    def submit(self, command: Any, done: Callable[[Any], None]) -> None:
        if isinstance(command, (Move, Enter)):
            done(StoreUnavailable("the disk is full; free some space"))
        else:
            super().submit(command, done)

    def spool(self, command: Any) -> None:
        raise StoreUnavailable("the disk is full; free some space")


class CaseRun:
    """One case, played.

    Attributes:
        executions: how often the tool's function was entered.
        results: the envelopes, in order.
        refused_at_registration: why the tools could not be registered; None if they could.
        cancelled: whether the caller cancelled the call.
    """

    def __init__(self, case: dict[str, Any]) -> None:
        self.case = case
        self.calls: list[dict[str, Any]] = case["call"] if isinstance(case["call"], list) else [case["call"]]
        self.governance: dict[str, Any] = case["tool_schema"].get("x-governance") or {}
        self.executions = 0
        self.received: list[dict[str, Any]] = []
        self.results: list[Any] = []
        self.cancelled = False
        self.refused_at_registration: str | None = None
        module = sys.modules["field_case"] = types.ModuleType("field_case")  # dataclasses look their module up
        self.namespace: dict[str, Any] = vars(module)
        self.clock = FakeClock()
        self._states: list[str] = []
        self._events: list[dict[str, Any]] = []

    # -- what was seen --------------------------------------------------------------------------------------------

    def seen_arguments(self) -> list[Any]:
        return self.received + [dict(one.normalized_args) for one in self.results if one.normalized_args is not None]

    def has_arguments(self, wanted: Any) -> bool:
        return any(_same(wanted, seen) for seen in self.seen_arguments())

    def folds(self) -> list[Any]:
        return [fold for event in self._events for fold in event.get("folds", [])]

    def was_folded(self) -> bool:
        return bool(self.folds()) or any("asked_as" in event for event in self._events)

    def was_changed(self) -> bool:
        return any(fold["rule"] != "default" for fold in self.folds())

    def ledger_states(self) -> list[str]:
        return self._states

    # -- playing ----------------------------------------------------------------------------------------------------

    async def play(self) -> None:
        """Register the tool and make the calls."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            guard = self._guard(folder)
            try:
                self._register(guard)
            except DuplicateToolError as error:
                self.refused_at_registration = str(error)
                return
            self._prepare_ledger(guard)
            for call in self.calls:
                await self._one(guard, call)
            self._states = [str(call.state) for call in guard.store.calls(CallQuery())]
            self._events = [json.loads(event.payload) for event in guard.store.events()]
            guard.close()

    def _guard(self, folder: Path) -> Guard:
        environment = self.calls[0].get("environment") or ""
        store = FailingStore if "store raises on the result record" in environment else SQLiteStore
        prefixes = tuple(self.governance.get("known_prefixes", ("functions.",)))
        return Guard(
            store=store(folder / "ledger.db"),
            evidence_dir=folder / "evidence",
            prefixes=prefixes,
            clock=self.clock,
            approver=self._approver(),
        )

    def _approver(self) -> Any:
        timeout = self.governance.get("approval_timeout_s")
        answers = [call["approval"] for call in self.calls if call.get("approval")]
        if timeout is not None:
            return CallbackApprover(lambda request: None, timeout=timeout)
        approved = [answer["arguments"] for answer in answers if answer.get("status") == "approved"]
        if not approved:
            return None

        def decide(request: Any) -> Decision | None:
            return Decision(True, by="reviewer") if dict(request.shown) in approved else None

        return _OnlyReviewed(decide)

    def _register(self, guard: Guard) -> None:
        schema = self.case["tool_schema"]
        names = self.governance.get("registry") or [schema["name"]]
        for name in names:
            is_target = (
                name == schema["name"]
                or (schema["name"] not in names and _alike(name, self.calls[0]["name"]))
                or len(names) == 1
            )
            fn = self._function() if is_target else (lambda **_: None)
            parameters = (
                schema["parameters"]
                if is_target
                else {"type": "object", "properties": {}, "additionalProperties": False}
            )
            guard.register(Tool(name=name, parameters=parameters, fn=fn, **self._options()))

    def _function(self) -> Callable[..., Any]:
        behaviour = self.case.get("tool_behaviour")
        source = (behaviour or {}).get("python")
        if source is None:

            def tool(**keywords: Any) -> None:
                self._enter(keywords)

            return tool
        exec(compile(source, "<case>", "exec", dont_inherit=True), self.namespace)
        return self._counted(self.namespace["tool"])

    def _counted(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        takes_context = "ctx" in inspect.signature(fn).parameters and "ctx" not in self.case["tool_schema"][
            "parameters"
        ].get("properties", {})

        def extra() -> tuple[Any, ...]:
            return (CONTEXT.get(),) if takes_context else ()

        if inspect.isasyncgenfunction(fn):

            async def counted(**keywords: Any) -> Any:
                self._enter(keywords)
                async for item in fn(*extra(), **keywords):
                    yield item

        elif inspect.iscoroutinefunction(fn):

            async def counted(**keywords: Any) -> Any:  # type: ignore[misc]
                self._enter(keywords)
                return await fn(*extra(), **keywords)

        else:

            def counted(**keywords: Any) -> Any:  # type: ignore[misc]
                self._enter(keywords)
                return fn(*extra(), **keywords)

        return counted if takes_context else functools.wraps(fn)(counted)

    def _enter(self, keywords: dict[str, Any]) -> None:
        self.executions += 1
        self.received.append(json.loads(json.dumps(keywords, default=lambda value: vars(value))))

    def _options(self) -> dict[str, Any]:
        governance = dict(self.governance)
        effect = {"read": "read", "destructive": "destructive"}.get(governance.get("side_effect", "write"), "write")
        if effect == "write" and governance.get("idempotent"):
            effect = "idempotent_write"
        options: dict[str, Any] = {"effect": effect, "rules": (), "constraints": ()}
        for key, value in governance.items():
            if key in SILENT:
                continue
            if key not in SETTINGS:
                raise UnknownSetting(f"x-governance {key!r} has no mapping")
            SETTINGS[key](options, value, self)
        options["rules"], options["constraints"] = tuple(options["rules"]), tuple(options["constraints"])
        if governance.get("streaming"):
            options["max_items"] = 1000
        return options

    def _prepare_ledger(self, guard: Guard) -> None:
        environment = self.calls[0].get("environment") or ""
        if "in progress" not in environment:
            return
        name, arguments = self.case["tool_schema"]["name"], json.loads(self.calls[0]["arguments"])
        now = self.clock.now()
        opening = Open(
            Identity(
                "fc-20260101-0000000dead",
                "earlier",
                name,
                "1",
                "write",
                digest=digest_of(name, arguments),
                effect_key=effect_key_of(place_of(Environment(name="field", tenant="tenant-a")), name, arguments, None),
            ),
            CallState.STARTED,
            1,
            Event("opened", now, {"request_id": "fc-20260101-0000000dead"}),
        )
        answers: list[Any] = []
        guard.store.submit(opening, answers.append)
        list(guard.store.calls(CallQuery()))

    async def _one(self, guard: Guard, call: dict[str, Any]) -> None:
        intent = self._intent(call)
        context = self._context(call)
        invoke = call.get("invoke") or ""
        token = CONTEXT.set(call.get("context") or {})
        for key, value in (call.get("context") or {}).items():
            if key.startswith("contextvar "):
                self.namespace[key.removeprefix("contextvar ")].set(value)
        try:
            if "sync entry point" in invoke:
                self.results.append(guard.run(intent, context=context))
            elif "cancels" in invoke:
                await self._cancelled(guard, intent, context)
            else:
                self.results.append(await guard.arun(intent, context=context))
        finally:
            CONTEXT.reset(token)

    async def _cancelled(self, guard: Guard, intent: Intent, context: TaskContext) -> None:
        task = asyncio.create_task(guard.arun(intent, context=context))
        while not self.executions:
            await asyncio.sleep(0.01)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            self.cancelled = True

    def _intent(self, call: dict[str, Any]) -> Intent:
        arguments = call["arguments"]
        if call.get("arguments_python"):
            arguments = eval(call["arguments_python"])
        usage = (
            Usage(None, call.get("completion_tokens"), call.get("max_tokens")) if "completion_tokens" in call else None
        )
        return Intent(
            call["name"], arguments, call_id=call.get("call_id"), finish_reason=call.get("finish_reason"), usage=usage
        )

    def _context(self, call: dict[str, Any]) -> TaskContext:
        given = call.get("context") or {}
        return TaskContext(
            goal=Goal(objective=call.get("user_text") or ""),
            environment=Environment(name="field", tenant=given.get("tenant") or given.get("tenant_id") or "tenant-a"),
            task_id=call.get("run_id") or f"case-{self.case['id']}",
            step=call.get("step"),
            actor=given.get("user"),
        )


class _OnlyReviewed:
    """Approves exactly what was reviewed; everything else still waits for a person."""

    def __init__(self, decide: Callable[[Any], Decision | None]) -> None:
        self.decide = decide

    def __call__(self, request: Any) -> Decision | None:
        return self.decide(request)


def _same(left: Any, right: Any) -> bool:
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def _alike(name: str, asked: str) -> bool:
    folded = "".join(character for character in asked.lower() if character.isalnum())
    return folded.endswith("".join(character for character in name.lower() if character.isalnum()))


def _url_parameter(run: CaseRun) -> str:
    properties = run.case["tool_schema"]["parameters"]["properties"]
    return next(name for name in properties if name in ("url", "uri", "href", "link"))


def _set_attempts(options: dict[str, Any], value: Any, run: CaseRun) -> None:
    previous = options.get("retry") or Retry()
    options["retry"] = Retry(attempts=value, max_wait=previous.max_wait)


def _set_max_wait(options: dict[str, Any], value: Any, run: CaseRun) -> None:
    previous = options.get("retry") or Retry()
    options["retry"] = Retry(attempts=previous.attempts, max_wait=value)


def _set_success_when(options: dict[str, Any], value: Any, run: CaseRun) -> None:
    path, _, wanted = value.partition("==")
    key, literal = path.strip().removeprefix("$."), json.loads(wanted)
    options["failed_when"] = lambda data: (
        None if data.get(key) == literal else f"{key} is {data.get(key)!r}, not {literal!r}"
    )


def _set_hosts(options: dict[str, Any], value: Any, run: CaseRun) -> None:
    if any(getattr(rule, "name", "") == "hosts" for rule in options["rules"]):
        return
    governance = run.governance
    allowed = governance.get("allowed_domains")
    options["rules"] = (
        *options["rules"],
        hosts(
            _url_parameter(run),
            allow=tuple(allowed) if allowed else ("*",),
            allow_subdomains=bool(governance.get("allow_subdomains")),
            schemes=("http", "https"),
        ),
    )


def _set_sql(options: dict[str, Any], value: Any, run: CaseRun) -> None:
    if value != "single read-only statement":
        raise UnknownSetting(f"sql_policy {value!r} has no mapping")
    options["rules"] = (*options["rules"], sql("sql", allow={"select"}, dialect=run.governance.get("dialect")))


def _set_rules(options: dict[str, Any], value: Any, run: CaseRun) -> None:
    for rule in value:
        if rule != "no write while freeze is active":
            raise UnknownSetting(f"rule {rule!r} has no mapping")
        is_active = "freeze flag is active" in (run.calls[0].get("environment") or "")
        options["constraints"] = (*options["constraints"], Freeze(lambda: is_active))


SETTINGS: dict[str, Callable[[dict[str, Any], Any, CaseRun], None]] = {
    "requires_approval": lambda options, value, run: options.update(approval="required" if value else "never"),
    "injected": lambda options, value, run: options.update(bound={name: name.removesuffix("_id") for name in value}),
    "timeout_s": lambda options, value, run: options.update(timeout=value),
    "max_attempts": _set_attempts,
    "max_wait_s": _set_max_wait,
    "error_prefixes": lambda options, value, run: options.update(
        failed_when=lambda data: data if isinstance(data, str) and data.startswith(tuple(value)) else None
    ),
    "max_result_chars": lambda options, value, run: options.update(max_result_chars=value),
    "redact": lambda options, value, run: options.update(redact=tuple(value)),
    "idempotency_key_param": lambda options, value, run: options.update(idempotency_key=value),
    "business_key": lambda options, value, run: options.update(business_key=tuple(value)),
    "loop_limit": lambda options, value, run: options.update(
        constraints=(*options["constraints"], NoProgressRepeat(block=value))
    ),
    "allowed_domains": _set_hosts,
    "block_private": _set_hosts,
    "sql_policy": _set_sql,
    "root_dir": lambda options, value, run: options.update(rules=(*options["rules"], paths("path", root=value))),
    "auto_approve_prefixes": lambda options, value, run: options.update(
        rules=(*options["rules"], shell("command", allow=tuple(value), on_refusal="approval"))
    ),
    "untrusted_output": lambda options, value, run: options.update(untrusted=bool(value)),
    "rules": _set_rules,
    "success_when": _set_success_when,
}
"""How each governance setting of a case becomes an option of a tool."""
