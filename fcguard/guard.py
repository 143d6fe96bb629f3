"""The guard: declare tools, open a task, call tools, and get one envelope whatever happens."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

from fcguard.approval.request import Decision
from fcguard.approval.resume import decide
from fcguard.approval.store import ApprovalStore
from fcguard.call_logs import listen_to_calls
from fcguard.children import Children
from fcguard.config import Config, Prepared, Toolbox
from fcguard.declare import (
    GuardParts,
    check_classifiers,
)
from fcguard.declaring import Declaring
from fcguard.errors import ConfigurationError, TaskError, UsageError
from fcguard.io import IO, Clock
from fcguard.ledger_metrics import watch_ledger
from fcguard.model.call import Call, Purpose
from fcguard.model.call_info import CURRENT
from fcguard.model.context import Budget, Environment, Goal, OutputContract, State, TaskContext
from fcguard.model.evidence import Evidence
from fcguard.model.identity import new_request_id
from fcguard.model.intent import Intent
from fcguard.model.result import ToolResult
from fcguard.model.schemas import SchemaFormat, definitions
from fcguard.model.task import CURRENT_TASK
from fcguard.model.tool import Tool
from fcguard.pipeline import govern
from fcguard.reconcile.face import Recovering
from fcguard.reconcile.history import origin_of
from fcguard.recovery.confirm import CONFIRMING
from fcguard.recovery.table import DEFAULT_TABLE, RecoveryTable
from fcguard.results import ArtifactDirectory
from fcguard.rules.task_policy import not_forbidden, tool_allowed, write_permitted
from fcguard.runtime import AsyncioIO, BlockingIO, SystemClock, drive
from fcguard.scope import RunningTasks, TaskScope, check_context, is_offered, make_context, next_step, said, tell
from fcguard.stores.base import Store
from fcguard.task_names import TaskNames
from fcguard.telemetry.contained import contained
from fcguard.telemetry.observer import Observer, Origin
from fcguard.telemetry.standard import default_observer
from fcguard.workers import Workers

__all__ = ["Guard"]

P = ParamSpec("P")
R = TypeVar("R")

_FIRST_RULES = (tool_allowed, not_forbidden, write_permitted)
_NO_ARGUMENTS: Mapping[str, Any] = {}
_PREFIXES = ("functions.", "tools.", "default_api:", "default_api.")


class Guard(Declaring, Recovering):
    """Governs the tools that are registered with it.

    Args:
        store: the ledger, or its URL: `sqlite:///path`, `sqlite:////absolute/path`, `postgresql://user@host/db`; None: what
            `FCGUARD_LEDGER` names, a URL or the path of a SQLite file, else `.fcguard/ledger.db`.
        evidence_dir: where artifacts go; default `.fcguard/evidence`.
        observer: telemetry; None: OpenTelemetry spans and metrics through the API, and structlog lines.
        tracer_provider, meter_provider: for the default observer; None: the global ones.
        span_detail: `call`, `attempts` or `stages`: how much of a call becomes spans.
        capture_content: `none`, `redacted` or `full` arguments and results on spans; None: what the environment says, else none.
        capture_logs: keep the log lines that are written during a call as a file of its evidence.
        rules: business rules for every tool, before the tool's own.
        constraints: execution constraints for every tool.
        classifiers: `(exception_or_result, call) -> ErrorType | Classified | None` for every tool.
        recovery: the recovery table.
        approver: decides about approvals; None: nobody does, and the answer is no.
        grants: standing approvals.
        approvals: where requests wait until somebody decides, and grants are kept: a store, or its URL as for `store`. Instead of
            `approver=Deferred(approvals), grants=approvals`; what a URL names is closed with the guard.
        prefixes: transport prefixes that a model may put before a tool's name.
        unregistered: names and globs that tasks may allow or forbid although no tool of this guard has them: tools of another
            guard, tools that are registered later, what is forbidden in case it ever exists.
        worker_threads: most threads for sync tools that have a timeout or are called from async code; more calls queue.
        clock: where time comes from; None: the machine's clocks.
    """

    def __init__(
        self,
        *,
        store: Store | str | None = None,
        evidence_dir: str | os.PathLike[str] | None = None,
        observer: Observer | None = None,
        tracer_provider: Any = None,
        meter_provider: Any = None,
        span_detail: Literal["call", "attempts", "stages"] = "attempts",
        capture_content: Literal["none", "redacted", "full"] | None = None,
        capture_logs: bool = False,
        rules: Sequence[Any] = (),
        constraints: Sequence[Any] = (),
        classifiers: Sequence[Callable[[Any, Any], Any]] = (),
        recovery: RecoveryTable = DEFAULT_TABLE,
        approver: Any = None,
        grants: Any = None,
        approvals: ApprovalStore | str | None = None,
        prefixes: Sequence[str] = _PREFIXES,
        unregistered: Iterable[str] = (),
        worker_threads: int = 128,
        clock: Clock | None = None,
    ) -> None:
        if type(worker_threads) is not int or worker_threads < 1:
            raise ConfigurationError(f"worker_threads={worker_threads!r} must be a whole number above 0")
        clock = clock if clock is not None else SystemClock()
        self._wall, self._clock = clock.now, clock.monotonic
        self._tools = Toolbox(tuple(prefixes))
        self._names = TaskNames(self._tools, unregistered)
        self._running = RunningTasks(self._clock)
        self._parts = GuardParts(_FIRST_RULES, rules, constraints)
        if store is None or isinstance(store, (str, os.PathLike)):
            from fcguard.stores.opening import ledger_of  # a guard with a store of its own does not pay for it

            store = ledger_of(store)
        if approvals is not None:
            from fcguard.approval.opening import deferring  # nor does one that defers nothing

            approver, grants = deferring(approvals, approver, grants)
        self.store = store
        self._opened = approver.store if isinstance(approvals, str) else None
        self._artifacts = ArtifactDirectory(evidence_dir if evidence_dir is not None else Path(".fcguard/evidence"))
        self._capture = listen_to_calls(self._keep, self._artifacts) if capture_logs else None
        if observer is None:
            observer = default_observer(
                tracer_provider=tracer_provider,
                meter_provider=meter_provider,
                span_detail=span_detail,
                capture_content=capture_content,
            )
        observer = contained(observer)
        self._config = Config(
            store=self.store,
            observer=observer,
            tools=self._tools,
            child=Children(self._tools, self._new_call, lambda: self._config),
            artifacts=self._artifacts,
            table=recovery,
            classifiers=check_classifiers(classifiers),
            approver=approver,
            grants=grants,
            logs=self._capture,
        )
        workers = self._workers = Workers(worker_threads)
        self._aio = AsyncioIO(workers, self._keep, clock, watch_ledger(observer, store))
        self._io = BlockingIO(workers, self._keep, clock, self._aio)

    # -- tasks -------------------------------------------------------------------------------------------------------

    def task(
        self,
        goal: str | Goal = "",
        *,
        context: TaskContext | None = None,
        environment: Environment | str | None = None,
        allow: Iterable[str] | None = None,
        forbid: Iterable[str] = (),
        write_allowed: bool = True,
        state: State | None = None,
        output: OutputContract | None = None,
        budget: Budget | None = None,
        task_id: str | None = None,
        step: int | None = None,
        risk: Literal["low", "medium", "high"] = "medium",
        agent: str | None = None,
        conversation_id: str | None = None,
        actor: str | None = None,
        roles: Iterable[str] = (),
        may_widen: bool = False,
    ) -> TaskScope:
        """Open a task: what its calls may rely on and which tools they may use. Use it in a `with` statement.

        It nests, and it follows the threads and asyncio tasks that fcguard starts (and those that copy the context). A task in
        another one allows no tool and no write that the outer one does not, and forbids what that forbids.

        Args:
            goal: one sentence, or a whole `Goal`.
            context: a ready `TaskContext` instead of all the others.
            environment: an `Environment`, or just its name.
            allow: names (or explicit globs) of the tools the task may use; None: all registered ones.
            forbid: names or globs the task must never call.
            write_allowed: whether tools that change the world may run.
            task_id: id of the task; None: a new one. Give the same id again to continue a task after a restart.
            step: fixes the step number of all calls; None: each call, or each turn of a model, is a step.
            state: what happened so far.
            output: what the data of a success must look like.
            budget: limits of the task.
            risk: how much harm a mistake can do.
            agent: name of the agent, for telemetry.
            conversation_id: id of the conversation, for telemetry.
            actor: who acts.
            roles: roles of the actor.
            may_widen: whether it may allow what the task around it does not; goes with `context` too.

        Raises:
            TaskError: something in it cannot be used. On entering: `allow` or `forbid` names what no tool has.
            ConfigurationError: on entering, the first time: a tool names a fallback or a confirmation that is not registered.
        """
        if context is None:
            context = make_context(
                goal,
                environment=environment,
                allow=allow,
                forbid=forbid,
                write_allowed=write_allowed,
                task_id=task_id if task_id is not None else self._new_task_id(),
                state=state or State(),
                output=output,
                step=step,
                risk=risk,
                budget=budget,
                agent=agent,
                conversation_id=conversation_id,
                actor=actor,
                roles=roles,
            )
        elif any(
            (
                goal,
                environment,
                allow is not None,
                forbid != (),
                not write_allowed,
                state,
                output,
                budget,
                task_id is not None,
                step is not None,
                risk != "medium",
                agent,
                conversation_id,
                actor,
                roles != (),
            )
        ):
            raise TaskError("guard.task: context= says everything; leave the other arguments out, or put them into it")
        else:
            check_context(context)
        if not context.task_id:
            context = context.model_copy(update={"task_id": self._new_task_id()})
        return TaskScope(context, self._clock, self._names, may_widen=may_widen)

    def _new_task_id(self) -> str:
        return "task-" + new_request_id(self._wall())[3:]

    # -- calling -----------------------------------------------------------------------------------------------------

    def call(self, name: str, arguments: Any = _NO_ARGUMENTS, *, context: TaskContext | None = None) -> ToolResult[Any]:
        """Call a tool by name from sync code.

        An async tool runs on an event loop of its own in a worker thread; tools that are tied to your loop need `acall`.

        Args:
            name: exact name of a registered tool.
            arguments: an object, or JSON text.
            context: instead of the running task's.

        Returns:
            The envelope, always: whatever is wrong with the call is said in it.

        Raises:
            TaskError: `context` cannot be used, as in `guard.task`.
            ConfigurationError: the first time: a tool names a fallback or a confirmation that is not registered.
        """
        return drive(govern(self._open(Intent.of(name, arguments), context), self._config, self._io)).take_result()

    async def acall(
        self, name: str, arguments: Any = _NO_ARGUMENTS, *, context: TaskContext | None = None
    ) -> ToolResult[Any]:
        """Call a tool by name from async code; a sync tool runs in a worker thread unless it is declared `inline`."""
        return (await govern(self._open(Intent.of(name, arguments), context), self._config, self._aio)).take_result()

    def run(self, intent: Intent, *, context: TaskContext | None = None) -> ToolResult[Any]:
        """Run a model's proposal from sync code; it raises what `call` raises.

        Returns:
            The envelope, always; for a proposal that calls nothing, a success with the model's text as data.
        """
        return self.run_turn([intent], context=context)[0]

    async def arun(self, intent: Intent, *, context: TaskContext | None = None) -> ToolResult[Any]:
        """Run a model's proposal from async code; see `run`."""
        return (await self.arun_turn([intent], context=context))[0]

    def run_turn(self, intents: Iterable[Intent], *, context: TaskContext | None = None) -> list[ToolResult[Any]]:
        """Run all the calls of one model response, in order; two identical non-idempotent writes among them run once."""
        return [
            said(call) if not call.proposal.call else drive(govern(call, self._config, self._io)).take_result()
            for call in self._turn(intents, context)
        ]

    async def arun_turn(
        self, intents: Iterable[Intent], *, context: TaskContext | None = None
    ) -> list[ToolResult[Any]]:
        """Run all the calls of one model response from async code, in order; see `run_turn`."""
        return [
            said(call) if not call.proposal.call else (await govern(call, self._config, self._aio)).take_result()
            for call in self._turn(intents, context)
        ]

    def step(self, source: Any, *, context: TaskContext | None = None) -> ToolResult[Any]:
        """Ask a model for its next call, offering only the allowed tools, and run it.

        Args:
            source: an `IntentSource`: `propose(context, tools) -> Intent`; if it has `record(result)`, it is told the result.
            context: instead of the running task's.
        """
        now = self._context(context)
        result = self.run(source.propose(now, self._offered(now)), context=context)
        tell(source, result)
        return result

    async def astep(self, source: Any, *, context: TaskContext | None = None) -> ToolResult[Any]:
        """Ask a model for its next call from async code, and run it; see `step`."""
        now = self._context(context)
        propose = getattr(source, "apropose", None)
        if propose is None:
            raise UsageError(
                f"{type(source).__name__} has no apropose(context, tools); use guard.step(...) or an async source"
            )
        result = await self.arun(await propose(now, self._offered(now)), context=context)
        tell(source, result)
        return result

    def resume(
        self, request_id: str, *, approved: bool, by: str, reason: str = "", arguments: Mapping[str, Any] | None = None
    ) -> ToolResult[Any]:
        """Decide a deferred approval and continue its call, also in another process; exactly once.

        Args:
            request_id: id of the request: `blocked_by` of the envelope that said `APPROVAL_REQUIRED`.
            approved: the answer.
            by: who decided.
            reason: why; shown to the model when the answer is no.
            arguments: run these instead of the proposed ones; they are validated again. They are kept, so they hold no secrets but
                masks that are left as they are.

        Returns:
            The envelope of the continued call, or `APPROVAL_DENIED`.

        Raises:
            UsageError: the guard defers no approvals, the request is unknown, expired or decided already, or `arguments` hold
                a secret.
        """
        return drive(self._resume(self._io, request_id, Decision(approved, by, reason, arguments)))

    async def aresume(
        self, request_id: str, *, approved: bool, by: str, reason: str = "", arguments: Mapping[str, Any] | None = None
    ) -> ToolResult[Any]:
        """Decide a deferred approval and continue its call from async code; see `resume`."""
        return await self._resume(self._aio, request_id, Decision(approved, by, reason, arguments))

    async def _resume(self, io: IO, request_id: str, decision: Decision) -> ToolResult[Any]:
        if not self._tools.is_settled:  # before the decision is used up
            self._tools.settle()
        request = await io.call(decide, self._config.approver, request_id, decision, self._wall())
        kept = TaskContext.model_validate(request.context or {})
        call = self._open(Intent.of(request.tool, request.arguments), kept, is_kept=True)
        call.observed = await io.call(origin_of, self.store, request_id)
        return (await govern(call, self._config, io)).take_result()

    # -- looking -----------------------------------------------------------------------------------------------------

    def allowed(self, context: TaskContext | None = None) -> tuple[Tool, ...]:
        """Answer the tools that a context (default: the running task's) allows; methods need an instance and are left out."""
        return self._offered(self._context(context))

    def _offered(self, now: TaskContext) -> tuple[Tool, ...]:
        if not self._tools.is_settled:
            self._tools.settle()
        offered = (prepared.tool for prepared in self._tools if not prepared.takes_receiver)
        return tuple(tool for tool in offered if is_offered(tool, now))

    def schemas(self, format: SchemaFormat = "openai") -> list[dict[str, Any]]:
        """Answer the definitions of the tools that the running task allows, in a provider's format.

        Args:
            format: `openai` (Chat Completions), `openai_responses`, `anthropic` or `mcp`.

        Raises:
            ConfigurationError: the format is unknown, or the provider would refuse a tool's name.
        """
        return definitions(self.allowed(), format)

    def close(self) -> None:
        """Finish what the ledger still has to write, and close it; and the approvals, if the guard opened them. Idempotent."""
        self.store.close()
        if self._opened is not None:
            self._opened.close()
        self._workers.release()
        if self._capture is not None:
            self._capture.close()

    def __enter__(self) -> Guard:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- inside ------------------------------------------------------------------------------------------------------

    def _check(self, context: TaskContext) -> None:
        check_context(context)
        self._names.check(context)

    def _context(self, given: TaskContext | None) -> TaskContext:
        if given is not None:
            self._check(given)
            return given
        task = CURRENT_TASK.get()
        return task.context if task is not None else TaskContext()

    def _new_call(self, intent: Intent, purpose: Purpose, parent: Call | None, given: TaskContext | None) -> Call:
        now = self._wall()
        call = Call(new_request_id(now), intent, purpose, parent, given)
        if purpose != "primary" and parent is not None:
            parent.children = (*parent.children, call.request_id)
            if type(parent.observed) is Origin:  # a parked call that is only asked about has no span of its own
                call.observed = parent.observed
        call.started_at, call.started = now, self._clock()
        return call

    def _open(
        self,
        intent: Intent,
        context: TaskContext | None,
        prepared: Prepared | None = None,
        step: int | None = None,
        *,
        is_kept: bool = False,
    ) -> Call:
        if context is not None and not is_kept:  # a kept one was checked where its task was opened
            self._check(context)
        confirming = CONFIRMING.get()
        if confirming is not None:
            call = self._new_call(intent, "confirm", confirming, context or confirming.context)
            call.task, call.step = confirming.task, confirming.step
        else:
            running = CURRENT.get()
            call = self._new_call(intent, "primary", running.call if running is not None else None, context)
            task = call.task = CURRENT_TASK.get() if context is None else self._running.of(context)
            if running is not None and context is None:
                call.step, call.nested = running.call.step, running.count_nested()
            else:
                call.step = step if step is not None else next_step(task, context)
        tools = self._tools
        if prepared is None and intent.tool.__class__ is str:
            prepared = tools.get(intent.tool)
        if not tools.is_settled and not is_kept:
            tools.settle(prepared)
        if prepared is not None:
            call.prepared, call.tool, call.redactor = prepared, prepared.tool, prepared.redactor
        return call

    def _turn(self, intents: Iterable[Intent], context: TaskContext | None) -> Iterator[Call]:
        """Yield the calls of one response, each opened when its turn has come."""
        proposals = list(intents)
        for proposal in proposals:
            if not isinstance(proposal, Intent):
                raise UsageError(
                    f"a proposal must be an Intent, not {type(proposal).__name__}; read the response first"
                )
        if context is not None:
            self._check(context)
        step = next_step(CURRENT_TASK.get() if context is None else None, context)
        turn: str | None = None
        for proposal in proposals:
            call = self._open(proposal, context, step=step)
            turn = call.turn = turn or call.request_id
            yield call

    def _keep(self, call: Call, content: bytes, name: str, media_type: str, kind: str) -> Evidence:
        tool = call.tool.name if call.tool is not None else "_unknown"
        return self._config.artifacts_of(call).keep(
            content, media_type, "", tool=tool, request_id=call.request_id, name=name, type=kind
        )
