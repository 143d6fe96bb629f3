"""Arguments and results on spans: off unless asked for, masked, and cut to a size."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final, Literal

from fcguard.errors import ConfigurationError
from fcguard.model.call import UNFILLED
from fcguard.model.secrets import MASK, Redactor

if TYPE_CHECKING:
    from fcguard.model.call import Call

__all__ = ["CAPTURE_VARIABLE", "MAX_BYTES", "Capture", "Content", "capture_mode", "cut", "redactor_of"]

Capture = Literal["none", "redacted", "full"]
"""`none`: no content. `redacted`: everything masked that is declared secret, is known as one or looks like one. `full`:
as the envelope shows it; that masks the arguments, but not a secret that the tool itself returns."""

CAPTURE_VARIABLE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
MAX_BYTES: Final = 8192

_ON: Final = frozenset({"true", "span_only", "span_and_event"})


def capture_mode(wanted: Capture | None) -> Capture:
    """Answer how much content is captured.

    Args:
        wanted: what the program says; None: what the environment says, `redacted` where it says yes, else `none`.

    Raises:
        ConfigurationError: `wanted` is none of the three words.
    """
    if wanted is None:
        return "redacted" if os.environ.get(CAPTURE_VARIABLE, "").strip().lower() in _ON else "none"
    if wanted not in ("none", "redacted", "full"):
        raise ConfigurationError(f"capture_content is {wanted!r}; use 'none', 'redacted' or 'full'")
    return wanted


class Content:
    """Turns the arguments and the data of a call into JSON texts of at most 8 KiB.

    Args:
        mode: how much is shown; `none` shows nothing.
        redactor: masks secrets beside the call's own redactor.
    """

    __slots__ = ("_redactor", "mode")

    def __init__(self, mode: Capture, redactor: Redactor | None = None) -> None:
        self.mode = mode
        self._redactor = redactor or Redactor()

    def arguments(self, call: Call) -> str | None:
        """Answer the arguments as the envelope shows them, without the idempotency key; None if there are none."""
        shown = call.result.normalized_args
        if shown is None:
            return None
        tool = call.tool
        key = tool.idempotency_key if tool is not None else None
        return self._text(call, {name: value for name, value in shown.items() if name != key})

    def result(self, call: Call) -> str | None:
        """Answer the data of the envelope; None if there is none."""
        data = call.result.data
        return None if data is None else self._text(call, data)

    def _text(self, call: Call, value: Any) -> str:
        key = call.idempotency_key
        if self.mode == "redacted":
            value = self._redactor.value(redactor_of(call).value(value))
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
        if key:
            text = text.replace(key, MASK)
        return cut(text)


def redactor_of(call: Call) -> Redactor:
    """Answer a redactor that knows what is secret in this call: by name, and the secret values of its arguments."""
    redactor = call.redactor
    values = () if call.arguments is UNFILLED else tuple(redactor.secret_values(call.arguments))
    return redactor.with_values(values) if values else redactor


def cut(text: str) -> str:
    """Answer a JSON text of at most 8 KiB: the text itself, or an object with its beginning as a preview."""
    size = len(text.encode("utf-8", "replace"))
    if size <= MAX_BYTES:
        return text.encode("utf-8", "replace").decode("utf-8")
    room = MAX_BYTES - 128
    while True:
        preview = text.encode("utf-8", "replace")[:room].decode("utf-8", "ignore")
        short = json.dumps({"truncated": True, "bytes": size, "preview": preview}, ensure_ascii=False)
        over = len(short.encode()) - MAX_BYTES
        if over <= 0:
            return short
        room -= max(over, 64)
