"""Finds out why a text is not JSON: where reading stops, within which property, and whether the end is missing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from fcguard.arguments.records import Path

__all__ = ["Diagnosis", "diagnose", "find_duplicate"]

_SPACE: Final = re.compile(r"[ \t\r\n]*+")
_STRING: Final = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_ESCAPES: Final = re.compile(r'(?:[^\\]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+', re.DOTALL)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*+)(?:\.\d++)?(?:[eE][+-]?\d++)?", re.ASCII)
_NUMBER_START: Final = re.compile(r"-?\d*\.?\d*(?:[eE][+-]?)?", re.ASCII)
_LITERALS: Final = ("true", "false", "null")

_VALUE, _KEY, _FIRST_KEY, _FIRST_ITEM, _COLON, _NEXT, _DONE = range(7)
_EXPECTED: Final = {
    _VALUE: "a value",
    _KEY: "a key in double quotes",
    _FIRST_KEY: "a key in double quotes or '}'",
    _FIRST_ITEM: "a value or ']'",
    _COLON: "':'",
    _NEXT: "',' or the closing bracket",
    _DONE: "the end of the text",
}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Where reading JSON came to its end.

    Attributes:
        kind: `complete`; `truncated`: the beginning of a JSON document; `malformed`: nothing could complete it.
        position: index of the character where reading stopped.
        path: the property or item that was being read.
        expected: what should stand there.
    """

    kind: Literal["complete", "truncated", "malformed"]
    position: int
    path: Path = ()
    expected: str = ""


class _Reader:
    """A pushdown recogniser of JSON; keeps no values, only where it is."""

    __slots__ = ("duplicate", "keys", "pos", "stack", "state", "text", "until_duplicate")

    def __init__(self, text: str, *, until_duplicate: bool = False) -> None:
        self.text, self.pos, self.state = text, 0, _VALUE
        self.until_duplicate = until_duplicate
        self.stack: list[str | int] = []
        self.keys: list[set[str]] = []
        self.duplicate: Path | None = None

    def run(self) -> Diagnosis:
        text, size = self.text, len(self.text)
        while True:
            self.pos = _SPACE.match(text, self.pos).end()  # type: ignore[union-attr]
            if self.pos >= size:
                return self._stop("complete" if self.state == _DONE else "truncated")
            verdict = self._step(text[self.pos])
            if verdict is not None:
                return verdict

    def _stop(self, kind: Literal["complete", "truncated", "malformed"]) -> Diagnosis:
        path = tuple(part for part in self.stack if part != "")
        return Diagnosis(kind, self.pos, path, _EXPECTED[self.state])

    def _step(self, mark: str) -> Diagnosis | None:
        state = self.state
        if state == _DONE:
            return self._stop("malformed")
        if state in (_KEY, _FIRST_KEY):
            if mark != "}" or state != _FIRST_KEY:
                return self._key(mark)
            self._close()
            return None
        if state == _COLON:
            if mark != ":":
                return self._stop("malformed")
            self.pos, self.state = self.pos + 1, _VALUE
            return None
        if state == _NEXT:
            return self._next(mark)
        if mark == "]" and state == _FIRST_ITEM:
            self._close()
            return None
        return self._value(mark)

    def _key(self, mark: str) -> Diagnosis | None:
        start = self.pos
        stopped = self._string() if mark == '"' else self._stop("malformed")
        if stopped is not None:
            return stopped
        key = self.text[start + 1 : self.pos - 1]
        self.stack[-1] = key
        if key in self.keys[-1]:
            self.duplicate = self.duplicate or tuple(self.stack)
            if self.until_duplicate:
                return self._stop("malformed")
        self.keys[-1].add(key)
        self.state = _COLON
        return None

    def _value(self, mark: str) -> Diagnosis | None:
        if mark in "{[":
            self.stack.append("" if mark == "{" else 0)
            self.keys.append(set())
            self.pos, self.state = self.pos + 1, _FIRST_KEY if mark == "{" else _FIRST_ITEM
            return None
        stopped = self._string() if mark == '"' else self._scalar(mark)
        if stopped is None:
            self.state = _NEXT if self.stack else _DONE
        return stopped

    def _string(self) -> Diagnosis | None:
        found = _STRING.match(self.text, self.pos)
        if found is None:
            self.pos = len(self.text)
            return self._stop("truncated")
        escapes = _ESCAPES.match(found[1])
        if escapes is not None and escapes.end() != len(found[1]):
            self.pos += 1 + escapes.end()
            stopped = self._stop("malformed")
            return Diagnosis("malformed", stopped.position, stopped.path, "a valid escape such as \\n, \\\\ or \\u00e9")
        self.pos = found.end()
        return None

    def _scalar(self, mark: str) -> Diagnosis | None:
        text = self.text
        for literal in _LITERALS:
            if text.startswith(literal, self.pos):
                self.pos += len(literal)
                return None
            if literal.startswith(text[self.pos :]):
                return self._stop("truncated")
        if mark == "-" or mark in "0123456789":
            start = _NUMBER_START.match(text, self.pos)
            if start is not None and start.end() == len(text) and self.stack:
                return self._stop("truncated")
            number = _NUMBER.match(text, self.pos)
            if number is not None:
                self.pos = number.end()
                return None
        return self._stop("malformed")

    def _next(self, mark: str) -> Diagnosis | None:
        top = self.stack[-1]
        if mark == ",":
            self.pos += 1
            if isinstance(top, int):
                self.stack[-1], self.state = top + 1, _VALUE
            else:
                self.state = _KEY
            return None
        if mark != ("]" if isinstance(top, int) else "}"):
            return self._stop("malformed")
        self._close()
        return None

    def _close(self) -> None:
        self.stack.pop()
        self.keys.pop()
        self.pos += 1
        self.state = _NEXT if self.stack else _DONE


def diagnose(text: str) -> Diagnosis:
    """Say where and how a text stops being JSON. Raw control characters in strings do not count as a fault."""
    return _Reader(text).run()


def find_duplicate(text: str) -> Path | None:
    """Answer where the first repeated key stands (keys as they are written, escapes not resolved); None if nowhere."""
    reader = _Reader(text, until_duplicate=True)
    reader.run()
    return reader.duplicate
