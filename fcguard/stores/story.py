"""Tell a call as the ledger keeps it: its identity, what it asked for, what the checks said, and how it went."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fcguard.model.call import UNFILLED, Call
from fcguard.model.context import OUTSIDE
from fcguard.model.identity import digest_of
from fcguard.model.secrets import Redactor, names_secrets
from fcguard.model.tool import Tool
from fcguard.stores.base import Event, Identity, Parts

__all__ = ["NO_TASK", "WholeCall", "ending_of", "identity_of", "opening_of"]

NO_TASK: Final = "-"
"""The task id of calls outside a task."""


def identity_of(call: Call) -> Identity:
    """Answer the columns of a write that never change, its keys included."""
    tool, context = call.prepared.tool, call.context
    environment = context.environment
    return Identity(
        call.request_id,
        context.task_id or NO_TASK,
        tool.name,
        tool.version,
        tool.effect,
        call.purpose,
        call.step,
        call.parent.request_id if call.parent is not None else None,
        environment.tenant if environment is not None else None,
        digest_of(tool.name, call.arguments),
        # A write that may be repeated is neither replayed nor blocked: its key guards nothing, it is kept to be sent again.
        (context.task_id or NO_TASK) if tool.effect != "idempotent_write" else call.request_id,
        call.idempotency_key,
        call.effect_key,
        tool.settle,
    )


def opening_of(call: Call) -> dict[str, Any]:
    """Answer the story of a call before its first dispatch: who asks for what, and what the checks said."""
    payload = _story(call)
    normalized, tool = call.normalized, call.tool
    payload |= {
        "request_id": call.request_id,
        "tool": tool.name if tool is not None else None,
        "version": tool.version if tool is not None else None,
        "step": call.step,
    }
    if call.span_id is not None:
        payload["trace_id"], payload["span_id"] = call.trace_id, call.span_id
    payload["arguments"] = call.redactor.value(call.arguments)
    _add_hidden(payload, tool)
    if call.context is not OUTSIDE:
        _add_reach(payload, call.context)
    if _has_own_raw(call):
        _add_raw(payload, normalized, call.redactor, call.tool)
    return payload


def _add_reach(payload: dict[str, Any], context: Any) -> None:
    """Add the limits within which a later process may go on with the call."""
    environment, tools, goal = context.environment, context.tools, context.goal
    if environment is not None:
        if environment.base_urls:
            payload["base_urls"] = environment.base_urls
        if environment.data_sources:
            payload["data_sources"] = environment.data_sources
        if environment.account_pool is not None:
            payload["account_pool"] = environment.account_pool
    if tools.allow is not None:
        payload["allow"] = sorted(tools.allow)
    if goal.forbidden_actions:
        payload["forbidden"] = sorted(goal.forbidden_actions)
    if context.roles:
        payload["roles"] = sorted(context.roles)
    if context.state.session_id is not None:
        payload["session_id"] = context.state.session_id
    if context.conversation_id is not None:
        payload["conversation_id"] = context.conversation_id


def _add_hidden(payload: dict[str, Any], tool: Tool | None) -> None:
    """Add the names of the parameters that the host filled, so that a reader can tell what the model sent."""
    if tool is not None and (tool.bound or tool.idempotency_key):
        hidden = tool.hidden
        if hidden:
            payload["hidden"] = sorted(hidden)


def _has_own_raw(call: Call) -> bool:
    """Answer whether the raw arguments tell more than the normalized ones: a text, or something that was folded."""
    normalized = call.normalized
    return normalized is not None and (bool(normalized.folds) or not isinstance(call.proposal.arguments, dict))


def _add_raw(payload: dict[str, Any], normalized: Any, redactor: Redactor, tool: Tool | None) -> None:
    if normalized.value is None and tool is not None and names_secrets(tool.parameters, tool.redact):
        # A text that could not be read cannot be masked by its fields either.
        payload["raw"] = (
            f"[{len(normalized.raw)} characters that could not be read; not kept, because the tool takes secrets]"
        )
    else:
        payload["raw"] = redactor.words(normalized.raw)
    if normalized.folds:
        payload["folds"] = [_fold(fold, redactor) for fold in normalized.folds]


def _story(call: Call) -> dict[str, Any]:
    """Answer what the envelope does not hold: the context's identity, the checks."""
    context, proposal, tool = call.context, call.proposal, call.tool
    payload: dict[str, Any] = {"purpose": call.purpose, "started_at": call.started_at}
    if context is not OUTSIDE:
        _add_context(payload, context, call.redactor)
    if proposal.call_id is not None:
        payload["model_call_id"] = call.redactor.words(str(proposal.call_id)[:200])
    if call.parent is not None:
        payload["parent_id"] = call.parent.request_id
    if tool is None:
        payload["asked_for"] = call.redactor.words(proposal.tool_text)
    elif tool.name != proposal.tool:
        payload["asked_as"] = call.redactor.words(proposal.tool_text)
    verdict = call.verdict
    if verdict is not UNFILLED:
        payload["passed"] = verdict.passed
        if verdict.refused_by is not None:
            payload["refused_by"] = verdict.refused_by
        if verdict.approval is not None:
            payload["approval"] = verdict.approval
    return payload


def _add_context(payload: dict[str, Any], context: Any, redactor: Redactor) -> None:
    environment = context.environment
    if environment is not None:
        payload["environment"] = environment.name
        if environment.tenant is not None:
            payload["tenant"] = environment.tenant
        if environment.account is not None:
            payload["account"] = environment.account
    if context.actor is not None:
        payload["actor"] = context.actor
    if context.agent is not None:
        payload["agent"] = context.agent
    if context.risk != "medium":
        payload["risk"] = context.risk
    goal = context.goal
    if goal.objective:
        payload["goal"] = redactor.words(goal.objective)
    if goal.entry != "api":
        payload["entry"] = goal.entry
    if goal.success_criteria:
        payload["success_criteria"] = [redactor.words(criterion) for criterion in goal.success_criteria]


def _fold(fold: Any, redactor: Any) -> dict[str, Any]:
    name = fold.path.rsplit(".", 1)[-1]
    pair = redactor.value({name: fold.before}), redactor.value({name: fold.after})
    return {"path": fold.path, "rule": fold.rule, "before": pair[0][name], "after": pair[1][name]}


def ending_of(call: Call, payload: dict[str, Any]) -> dict[str, Any]:
    """Add how the call went, beside its envelope."""
    attempts = call.attempts
    if len(attempts) == 1 and attempts[0].failure is None:
        payload["attempt_ms"] = int(attempts[0].duration * 1e6 + 0.5) / 1000  # half the time of round(..., 3)
    elif attempts:
        payload["attempts"] = [call.redactor.value(attempt.summary()) for attempt in attempts]
    if call.failure is not None:
        payload["why"] = call.redactor.words(call.failure.reason)
        payload["layer"] = call.failure.layer
    if call.confirmations:
        payload["confirmations"] = list(call.confirmations)
    if call.blocked_by is not None:
        payload["blocked_by"] = call.blocked_by
    if call.flags:
        payload["flags"] = list(call.flags)
    return payload


class WholeCall:
    """Makes the record of a whole call when the ledger looks at it.

    It keeps the few values it needs and lets go of the call, so that a ledger in memory does not keep every call alive.
    """

    __slots__ = ("_at", "_context", "_make_result", "_normalized", "_redactor", "_span_id", "_story", "_tool")

    def __init__(self, call: Call, make_result: Callable[[], dict[str, Any]], at: float) -> None:
        self._at, self._make_result = at, make_result
        self._tool, self._context, self._redactor = call.tool, call.context, call.redactor
        self._story, self._span_id = ending_of(call, _story(call)), call.span_id
        self._normalized = call.normalized if _has_own_raw(call) else None

    def __call__(self) -> Parts:
        """Answer identity, event and envelope."""
        result = self._make_result()
        story = self._story
        if self._normalized is not None:
            _add_raw(story, self._normalized, self._redactor, self._tool)
        tool, environment = self._tool, self._context.environment
        _add_hidden(story, tool)
        identity = Identity(
            result["request_id"],
            self._context.task_id or NO_TASK,
            tool.name if tool is not None else "_unknown",
            tool.version if tool is not None else "",
            tool.effect if tool is not None else "read",
            story["purpose"],
            result["step"],
            story.get("parent_id"),
            environment.tenant if environment is not None else None,
        )
        if self._span_id is not None:
            story["trace_id"], story["span_id"] = result["trace_id"], self._span_id
        story["result"] = result
        return identity, Event("call", self._at, story), result
