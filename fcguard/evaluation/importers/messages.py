"""Chat messages to call records: pairs calls with results, and finds out which results were used later."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from fcguard.evaluation.canonical import digest, parse_arguments
from fcguard.evaluation.importers.fields import REPLAYS, first_of, status_of
from fcguard.evaluation.trace import CallRecord, CallStatus, UnreadLog
from fcguard.model.failure import EffectState

__all__ = ["MessageReader", "ResultReader", "envelope_status", "read_messages"]

ResultReader = Callable[[Mapping[str, Any], str], tuple[CallStatus, str | None, EffectState | None]]
"""(result message, its text) -> status, error type, what is known of the effect."""

_WORD: Final = re.compile(r"[^\W_][\w\-.:@/#]{2,}")
_TELLING: Final = re.compile(r"[0-9A-Z]|[^\x00-\x7f]")
_YES: Final = re.compile(
    r"\b(yes|yeah|yep|sure|confirm(ed)?|proceed|go ahead|please do|correct|agree|ok(ay)?|sounds good)\b|好的|确认|可以|同意|是的",
    re.IGNORECASE,
)


def envelope_status(message: Mapping[str, Any], text: str) -> tuple[CallStatus, str | None, EffectState | None]:
    """Read how a call ended from a declared place only: an error flag of the message, or an envelope with `success`.

    Text is never searched for the word "error": without a declared place the status is `unknown`.
    """
    flag = first_of(message, "is_error", "isError", "error")
    if isinstance(flag, bool):
        return ("failed" if flag else "succeeded"), None, None
    try:
        value = json.loads(text) if text.startswith("{") else None
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        if isinstance(value.get("success"), bool):
            state = value.get("effect")
            known: EffectState | None = state if state in ("none", "applied", "not_applied", "unknown") else None
            failed: CallStatus = "refused" if value.get("attempts") == 0 else "failed"
            return (("succeeded" if value["success"] else failed), value.get("error_type"), known)
        if isinstance(value.get("isError"), bool):
            return ("failed" if value["isError"] else "succeeded"), None, None
    return status_of(message.get("status")), None, None


@dataclass(slots=True)
class MessageReader:
    """Collects the calls of one conversation, message by message.

    Attributes:
        unread: where broken messages are noted.
        where: place of the conversation, for notes.
        read_result: tells how a call ended.
        results_by: see `ImportOptions`.
        reason_told: whether the last assistant message without calls came after the last failure.
    """

    unread: UnreadLog
    where: str
    read_result: ResultReader = envelope_status
    results_by: Literal["order", "last_id"] = "order"
    calls: list[CallRecord] = field(default_factory=list)
    reason_told: bool | None = None
    _step: int = 0
    _open: dict[str, list[int]] = field(default_factory=dict)
    _user_text: str = ""
    _seen: set[str] = field(default_factory=set)
    _from_result: dict[str, list[int]] = field(default_factory=dict)

    def add(self, message: Any) -> None:
        """Read one message: Chat Completions, or an item of the Responses API; anything else is noted."""
        if not isinstance(message, Mapping):
            self.unread.add(self.where, f"a message is a {type(message).__name__}, not an object")
            return
        kind, role = message.get("type"), message.get("role")
        if kind == "function_call":
            self._step += 1
            self._call(message.get("call_id") or message.get("id"), message.get("name"), message.get("arguments"))
        elif kind == "function_call_output":
            self._result(message.get("call_id"), message, message.get("output"))
        elif role == "assistant":
            self._assistant(message)
        elif role in ("tool", "function"):
            self._result(message.get("tool_call_id") or message.get("id"), message, message.get("content"))
        elif role == "user":
            self._user_text = _text(message.get("content"))
            self._see(self._user_text)
        elif role not in ("system", "developer") and kind != "reasoning":
            self.unread.add(self.where, f"a message of role {role!r} was not read")

    def _assistant(self, message: Mapping[str, Any]) -> None:
        self._step += 1
        calls = message.get("tool_calls") or []
        legacy = message.get("function_call")
        if isinstance(legacy, Mapping):
            calls = [{"function": legacy}]
        text = _text(message.get("content"))
        if text:
            self._use(text, len(self.calls) - 1)
            self.reason_told = True if not calls else self.reason_told
        if not isinstance(calls, list):
            self.unread.add(self.where, f"tool_calls is a {type(calls).__name__}, not a list")
            return
        for call in calls:
            inner = call.get("function", call) if isinstance(call, Mapping) else None
            if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str):
                self._call(None, None, None)
                continue
            self._call(call.get("id"), inner["name"], inner.get("arguments"))

    def _call(self, call_id: Any, name: Any, raw: Any) -> None:
        position = len(self.calls)
        unique = str(call_id) if call_id is not None and str(call_id) not in self._open else f"call-{position + 1}"
        if not isinstance(name, str):
            self.unread.add(
                self.where, f"call {position + 1} names no tool; it is counted as a call of an unknown tool"
            )
            name = ""
        arguments, error = parse_arguments(raw)
        self._open.setdefault(str(call_id if call_id is not None else unique), []).append(position)
        self.calls.append(
            CallRecord(
                call_id=unique,
                tool=name,
                step=self._step,
                raw_arguments=raw,
                arguments=arguments,
                parse_error=error,
                confirmed_by_human=bool(_YES.search(self._user_text)),
                consumed=False,
            )
        )
        self.reason_told = None
        self._use(raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False, default=str), position)

    def _result(self, call_id: Any, message: Mapping[str, Any], content: Any) -> None:
        positions = self._open.get(str(call_id), [])
        if not positions and call_id is None and self.calls:
            positions = [len(self.calls) - 1]
        if not positions:
            self.unread.add(self.where, f"a result for the unknown call {call_id!r} was not read")
            return
        text = _text(content)
        status, error_type, state = self.read_result(message, text)
        is_replay = status == "succeeded" and _is_replay(text)
        for position in positions if self.results_by == "last_id" else positions[-1:]:
            self.calls[position] = replace(
                self.calls[position],
                status=status,
                sent=False if status == "refused" or is_replay else None,
                error_type=error_type,
                effect_state=state,
                result_hash=digest(text),
            )
        for word in _words(text) - self._seen:
            self._from_result.setdefault(word, []).append(positions[-1])

    def _see(self, text: str) -> None:
        """Note words that somebody said: a result that holds them too brought nothing new with them."""
        self._seen |= _words(text)

    def _use(self, text: str, by: int) -> None:
        """Mark the results whose own words a text takes up; `by` is the position of the last call made by then."""
        for word in _words(text):
            for position in self._from_result.pop(word, ()):
                call = self.calls[position]
                if not call.consumed:
                    self.calls[position] = replace(call, consumed=True, consumed_by=by)
            self._seen.add(word)


def read_messages(
    messages: Iterable[Any],
    unread: UnreadLog,
    where: str,
    read_result: ResultReader = envelope_status,
    *,
    results_by: Literal["order", "last_id"] = "order",
) -> MessageReader:
    """Read a whole conversation.

    A result counts as used when a later argument or assistant text takes up a word of it (with a digit, a capital letter
    or a letter outside ASCII) that nobody had said before.

    Args:
        messages: the messages, in order.
        unread: where broken messages are noted.
        where: place of the conversation, for notes.
        read_result: tells how a call ended.
        results_by: see `ImportOptions`.
    """
    reader = MessageReader(unread, where, read_result, results_by)
    for message in messages:
        reader.add(message)
    return reader


def _is_replay(text: str) -> bool:
    """Whether a result is a guard's envelope that was answered with the stored result of an earlier call."""
    if not (text.startswith("{") and '"outcome_basis"' in text):
        return False
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.get("outcome_basis") in REPLAYS


def _words(text: str) -> set[str]:
    return {word.rstrip(".:-") for word in _WORD.findall(text) if _TELLING.search(word)}


def _text(content: Any) -> str:
    """Answer the text of a message's content: text, a list of parts, or any JSON value."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, Mapping) for part in content):
        return "\n".join(str(part.get("text", "")) for part in content)
    return json.dumps(content, ensure_ascii=False, sort_keys=True, default=str)
