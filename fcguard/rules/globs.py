"""Names that match exactly, or by a glob where a glob is written."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from fcguard.errors import ConfigurationError

__all__ = ["is_glob", "matches", "name_patterns", "word_set"]

_GLOB: Final = frozenset("*?[")


def is_glob(pattern: str) -> bool:
    """Tell whether a pattern is an explicit glob (`*`, `?`, `[...]`)."""
    return not _GLOB.isdisjoint(pattern)


@lru_cache(maxsize=512)
def _globs(patterns: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(filter(is_glob, patterns)))


@lru_cache(maxsize=4096)
def matches(name: str, patterns: frozenset[str]) -> bool:
    """Tell whether a name is one of the patterns or fits one that is a glob; case counts."""
    return name in patterns or any(fnmatchcase(name, glob) for glob in _globs(patterns))


def name_patterns(given: Iterable[str], owner: str) -> frozenset[str]:
    """Answer patterns as a set.

    Raises:
        ConfigurationError: there is none, or one is not a text.
    """
    names = (given,) if isinstance(given, str) else tuple(given)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigurationError(f"{owner}: give one or more names, or globs such as 'sandbox-*'; got {names!r}")
    return frozenset(names)


def word_set(text: str) -> frozenset[str]:
    """Answer the words of a text; a table of names reads best as one."""
    return frozenset(text.split())
