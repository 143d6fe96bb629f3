"""Repairs of text that is not quite JSON; each is lossless, recorded, and most are for tools that only read."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["EXCERPT", "as_json", "unfenced"]

EXCERPT: Final = 80
"""Most characters of a text that a fold quotes."""

_SPACE: Final = " "
_FENCE: Final = "```"
_LANGUAGE: Final = re.compile(r"[A-Za-z0-9_+.-]{0,20}[ \t]*\r?\n|(?:[jJ][sS][oO][nN]5?)?[ \t]*(?=[{\"])")
_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\r\n]++)
    | (?P<string>"(?:[^"\\]|\\.)*+")
    | (?P<single>'(?:[^'\\]|\\.)*+')
    | (?P<mark>[{}\[\],:])
    | (?P<number>-?\d[\d.eE+-]*+)
    | (?P<word>[A-Za-z]++)
    | (?P<escape>\\[ntr])""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_WORDS: Final = {"true": "true", "false": "false", "null": "null", "True": "true", "False": "false", "None": "null"}
_ESCAPE: Final = re.compile(r'\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|(.))|"', re.DOTALL)
_ESCAPES: Final = {"'": "'", '"': '\\"', "\\": "\\\\", "n": "\\n", "r": "\\r", "t": "\\t", "b": "\\b", "f": "\\f"}


def unfenced(text: str) -> str | None:
    """Answer the content of a text that is one markdown fence, with or without a language word; None if it is none.

    Args:
        text: without whitespace around it.
    """
    if not (text.startswith(_FENCE) and text.endswith(_FENCE) and len(text) >= 2 * len(_FENCE)):
        return None
    body = text[len(_FENCE) : -len(_FENCE)]
    head = _LANGUAGE.match(body)
    return None if head is None else body[head.end() :].strip()


def as_json(text: str) -> tuple[str, list[tuple[str, str]]] | None:
    """Rewrite what a read tool may be sent as JSON: trailing commas, Python literals, escapes between tokens.

    Nothing is completed and nothing but those is touched; whether the result is JSON is for the parser to say.

    Args:
        text: the whole text.

    Returns:
        The new text and the changes, `(rule, what it was)`, one for each rule used; None if it holds anything else.
    """
    out: list[str] = []
    changes: dict[str, str] = {}
    tail: list[int] = []  # indices in `out` of the last two tokens that are not space
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            return None
        token, kind = found[0], found.lastgroup
        position = found.end()
        if kind == "word":
            if token not in _WORDS:
                return None
            _note(changes, "python_literal", token, _WORDS[token])
            token = _WORDS[token]
        elif kind == "single":
            converted = _double_quoted(token)
            if converted is None:
                return None
            _note(changes, "python_literal", token, converted)
            token = converted
        elif kind == "escape":
            _note(changes, "stray_escape", token, _SPACE)
            token = _SPACE
        elif (
            token in ("}", "]") and len(tail) == 2 and out[tail[1]] == "," and out[tail[0]] not in ("{", "[", ",", ":")
        ):
            _note(changes, "trailing_comma", "," + token, token)
            out[tail[1]] = ""
        out.append(token)
        if kind not in ("space", "escape"):
            tail = [*tail[-1:], len(out) - 1]
    return "".join(out), list(changes.items())


def _note(changes: dict[str, str], rule: str, before: str, after: str) -> None:
    if before != after:
        changes.setdefault(rule, before[:EXCERPT])


def _double_quoted(token: str) -> str | None:
    """Rewrite a Python string in single quotes as a JSON string; None if an escape in it is not one of both."""
    unknown = False

    def rewritten(found: re.Match[str]) -> str:
        nonlocal unknown
        if found[0] == '"':
            return '\\"'
        if found[1] is None:
            return found[0] if found[0][1] == "u" else f"\\u00{found[0][2:]}"
        unknown = unknown or found[1] not in _ESCAPES
        return _ESCAPES.get(found[1], "")

    content = _ESCAPE.sub(rewritten, token[1:-1])
    return None if unknown else f'"{content}"'
