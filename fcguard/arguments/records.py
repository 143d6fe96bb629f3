"""What reading the arguments of a call produces: folds, findings, and the normalized arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fcguard.model.failure import Problem

__all__ = [
    "FOLD_RULES",
    "MAX_RAW",
    "Finding",
    "Fold",
    "Normalized",
    "Path",
    "clean",
    "dotted",
    "json_text",
    "place",
    "shortened",
]

MAX_RAW: Final = 1 << 16
"""Characters of raw text that are kept for the evidence; longer texts are cut and say so."""

_SHOWN: Final = 80
"""Most characters of a value, pattern or description that a message repeats."""

FOLD_RULES: Final[Mapping[str, str]] = {
    "byte_order_mark": "the mark at the start of the text is dropped",
    "fence": "the text is one markdown fence; its content is read",
    "json_string": "the text is a JSON string that holds one JSON object; that object is read",
    "wrapper": "the arguments stand in one wrapper key that the tool does not have; `before` is the key",
    "empty_arguments": "empty text or `null` stands for no arguments, where none are required",
    "control_characters": "raw control characters within strings are kept",
    "trailing_comma": "a comma before a closing bracket is dropped",
    "python_literal": "`True`, `False`, `None` and text in single quotes are read as JSON",
    "stray_escape": "`\\n`, `\\r` or `\\t` between tokens is read as white space",
    "repeated_object": "the same object stands twice in a row; one is read",
    "python_value": "a Python value gets its JSON form; `before` names its type",
    "name": "a parameter is sent by an alias or in another style; `before` is that name",
    "null_dropped": "`null` for an optional parameter that does not allow it is left out",
    "empty_dropped": "an empty text for an optional parameter that refuses it is left out",
    "normalizer": "the tool's own normalizer changed the value",
    "number": "a text is a plain JSON number",
    "integral_float": "a whole float is an integer",
    "number_as_text": "an integer stands where only text is allowed",
    "boolean": "a text is `true` or `false`, in any case",
    "enum": "a value means exactly one member, apart from case, spaces, `-` and `_`",
    "date": "a date or time in another form has exactly one reading",
    "json_text": "a text is the JSON of the array or object that is wanted",
    "comma_list": "a text lists plain words for an array of strings",
    "default": "an absent parameter gets its default",
}
"""Rule of a fold -> what happened, in the order in which the rules are applied."""

Path = tuple[str | int, ...]
"""Where in the arguments: property names and array indices from the root."""


@dataclass(frozen=True, slots=True)
class Fold:
    """One recorded change.

    Attributes:
        path: where, as dotted keys and `[index]`; empty for the whole text or object.
        rule: which rule changed it; `docs/arguments.md` lists the rules.
        before: what the model sent there; the name it used for `name`; None where there was nothing.
        after: what stands there now; None where it was dropped.
    """

    path: str
    rule: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of a schema that does not stop its use.

    Attributes:
        path: JSON Pointer of the faulty place within the schema.
        code: a word of ours (`unknown_type`, `enum_type_conflict`, ...).
        message: what is wrong and what was made of it.
    """

    path: str
    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.path or '/'}: {self.message}"


@dataclass(frozen=True, slots=True)
class Normalized:
    """The arguments of one call after parsing, folding and validation.

    Attributes:
        value: a new plain dict; None if the arguments could not be read as an object.
        folds: every change, in the order in which they were made.
        problems: every fault that is left; empty means that the call may go on.
        error_type: the `ErrorType` of the worst problem; None without problems.
        next_action: what the caller should do about it; None without problems.
        source: what `raw` is made from.
    """

    value: dict[str, Any] | None
    folds: tuple[Fold, ...] = ()
    problems: tuple[Problem, ...] = ()
    error_type: str | None = None
    next_action: str | None = None
    source: Any = field(default="", repr=False, compare=False)

    @property
    def raw(self) -> str:
        """What the model sent, as text for the evidence: compact JSON of an object; cut at `MAX_RAW` characters."""
        text = _as_text(self.source)
        return text if len(text) <= MAX_RAW else f"{text[:MAX_RAW]}... ({len(text) - MAX_RAW} more characters)"

    @property
    def message(self) -> str:
        """All problems as one text for the model; empty without problems."""
        if len(self.problems) == 1:
            return str(self.problems[0])
        return "\n".join(f"- {problem}" for problem in self.problems)


def _as_text(source: Any) -> str:
    if isinstance(source, str):
        return source
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source).decode("utf-8", "backslashreplace")
    return "" if source is None else json_text(source)


def json_text(value: Any) -> str:
    """Write a value as compact JSON."""
    return _encode(value)


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


_new = object.__new__
_SETTERS: Final[Mapping[str, Any]] = {
    name: vars(Normalized)[name].__set__
    for name in ("value", "folds", "problems", "error_type", "next_action", "source")
}
_set_value, _set_folds, _set_problems, _set_error, _set_next, _set_source = _SETTERS.values()


def clean(value: dict[str, Any], folds: tuple[Fold, ...], source: Any) -> Normalized:
    """Build the answer for a call without problems, on the path of every call; half the cost of the constructor."""
    made = _new(Normalized)
    _set_value(made, value)
    _set_folds(made, folds)
    _set_problems(made, ())
    _set_error(made, None)
    _set_next(made, None)
    _set_source(made, source)
    return made


def dotted(path: Path) -> str:
    """Write a path as dotted keys and `[index]`, such as `items[2].qty`."""
    if len(path) == 1 and isinstance(path[0], str):
        return path[0]
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def place(path: Path) -> str:
    """Write a path for a message: long names are cut, and characters that do not print are escaped."""
    return dotted(tuple([_shown(part) if isinstance(part, str) else part for part in path])) if path else ""


def _shown(name: str) -> str:
    return shortened(name if name.isprintable() else repr(name)[1:-1])


def shortened(text: str, limit: int = _SHOWN) -> str:
    """Cut a text to a length, and show that it was cut."""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
