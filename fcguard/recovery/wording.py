"""One short line about a failure: the first line of what was said, without secrets, for a model or a person."""

from __future__ import annotations

import re
from typing import Final

from fcguard.model.secrets import Redactor

__all__ = ["error_line", "first_line"]

_LONGEST: Final = 200
_QUERY: Final = re.compile(r"\?[\w.%~+-]{1,100}=[^\s\"'<>)]*")
_TOKEN: Final = re.compile(r"\b(?:sk|pk|ghp|gho|xox[a-z]|AKIA|eyJ)[-_A-Za-z0-9.]{12,}")
_REDACTOR: Final = Redactor()


def first_line(text: str) -> str:
    """Answer the first line of a text: printable, at most 200 characters, secrets and URL queries masked."""
    line = next((part.strip() for part in text[:4000].splitlines() if part.strip()), "")
    line = _REDACTOR.text(line)
    line = _TOKEN.sub("[redacted]", _QUERY.sub("?…", line))
    line = "".join(character if character.isprintable() else " " for character in line).strip()
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def error_line(error: BaseException) -> str:
    """Answer `Class: first line` of an exception; the class alone if it says nothing or cannot be written."""
    name = type(error).__name__
    try:
        line = first_line(str(error))
    except Exception:
        return name
    return f"{name}: {line}" if line and line != name else name
