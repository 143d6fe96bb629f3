"""How a finished call is told to people: one word for its outcome, and codes that are safe to show."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal

from fcguard.model.failure import ErrorType, FailureClass, NextAction

if TYPE_CHECKING:
    from fcguard.model.call import Call
    from fcguard.model.result import ToolResult

__all__ = ["ERRORS", "VALIDATION_LAYERS", "Outcome", "code_of", "layer_of", "outcome_of", "word_of"]

Outcome = Literal["completed", "deduplicated", "rejected", "denied", "deferred", "failed", "uncertain", "cancelled"]

ERRORS: Final[frozenset[Outcome]] = frozenset({"rejected", "denied", "failed", "uncertain"})
"""Outcomes that are errors. A deferred approval, a replay and a cancellation are not."""

VALIDATION_LAYERS: Final = frozenset({"context", "intent", "normalize", "schema", "business", "approval", "execution"})
"""Layers that can refuse a call before anything is sent."""

_CODE: Final = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
_WORD: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_MOST_OWN: Final = 200
_codes: Final[dict[str, str]] = {str(code): str(code) for code in ErrorType}
_words: Final[dict[str, str]] = {str(word): str(word) for word in NextAction}
_own: Final = {"codes": len(_codes) + _MOST_OWN, "words": len(_words) + _MOST_OWN}


def outcome_of(result: ToolResult[object]) -> Outcome:
    """Answer how a call ended.

    An effect that is still unknown outweighs everything: such a call is `uncertain` even if it was cancelled.
    """
    if result.success:
        return "deduplicated" if result.outcome_basis == "replayed" else "completed"
    error, family = result.error_type, result.failure_class
    if family == FailureClass.UNCERTAIN or (result.effect == "unknown" and result.attempts):
        return "uncertain"
    if error == ErrorType.CANCELLED:
        return "cancelled"
    if error == ErrorType.APPROVAL_REQUIRED:
        return "deferred"
    if result.attempts:
        return "failed"
    return "denied" if family == FailureClass.POLICY else "rejected"


def layer_of(call: Call, result: ToolResult[object]) -> str | None:
    """Answer the layer that refused a call; None if none did."""
    failure = call.failure
    if result.success or result.attempts or failure is None or failure.layer not in VALIDATION_LAYERS:
        return None
    return failure.layer


def code_of(error_type: str | None) -> str:
    """Answer an error type that may be shown and counted; `_OTHER` for text that is no code.

    Only the first 200 codes that rules invent are let through, so that a code made from data cannot grow without bound.
    """
    found = _codes.get(error_type or "")
    if found is not None:
        return found
    if error_type is None or _CODE.fullmatch(error_type) is None or len(_codes) >= _own["codes"]:
        return "_OTHER"
    return _codes.setdefault(str(error_type), str(error_type))


def word_of(next_action: str) -> str | None:
    """Answer a next action that may be shown; None for text that is no word."""
    found = _words.get(next_action)
    if found is not None:
        return found
    if _WORD.fullmatch(next_action) is None or len(_words) >= _own["words"]:
        return None
    return _words.setdefault(str(next_action), str(next_action))
