"""Why the other side refused, in its own words: taken out of a response body, never out of markup."""

from __future__ import annotations

import json
from typing import Any, Final

__all__ = ["stated_reason"]

_FIELDS: Final = ("detail", "message", "error_description", "title", "error", "reason", "msg")
"""Where a JSON body says why, most telling first (RFC 9457, RFC 6749 and common practice)."""

_LONGEST: Final = 500


def stated_reason(body: Any) -> str:
    """Answer the words in which a response body says why; empty if it says nothing of use.

    Args:
        body: JSON values or text; anything else says nothing.
    """
    if isinstance(body, dict):
        return _stated_in(body)
    if isinstance(body, str) and not body.lstrip().startswith("<"):
        return body.strip().partition("\n")[0][:_LONGEST]
    return ""


def _stated_in(body: dict[Any, Any]) -> str:
    for name in _FIELDS:
        reason = body.get(name)
        if isinstance(reason, dict):
            reason = reason.get("message")
        if isinstance(reason, str) and reason.strip():
            return reason.strip()[:_LONGEST]
        if isinstance(reason, list) and reason:
            return json.dumps(reason, ensure_ascii=False, default=str)[:_LONGEST]
    return ""
