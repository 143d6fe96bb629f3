"""Matchers of argument values, written as plain JSON in the gold: exact by default, `{"$name": ...}` for the others."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fcguard.errors import ConfigurationError
from fcguard.evaluation.canonical import canonical

__all__ = ["MATCHERS", "NOT_WANTED", "Matcher", "Mismatch", "compile_matcher"]

NOT_WANTED: Final = "missing"
"""What a mismatch says is wanted where a call holds a key that the gold does not name."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One place where a value differs from what was wanted.

    Attributes:
        path: dotted path in the arguments; empty for the whole.
        wanted: what the gold asks for, as text.
        found: what the call holds, as canonical JSON; `missing` if it holds nothing.
    """

    path: str
    wanted: str
    found: str

    def __str__(self) -> str:
        return f"{self.path or 'arguments'}: wanted {self.wanted}, found {self.found}"


@dataclass(frozen=True, slots=True)
class Matcher:
    """A compiled matcher.

    Attributes:
        wanted: what it asks for, in words.
        compare: answers every mismatch of a value at a path; empty means that it matches.
        optional: whether the value may be left out of its object.
    """

    wanted: str
    compare: Callable[[Any, str], tuple[Mismatch, ...]]
    optional: bool = False

    def matches(self, value: Any) -> bool:
        """Answer whether a value matches."""
        return not self.compare(value, "")


def compile_matcher(spec: Any) -> Matcher:
    """Compile a matcher from its JSON form.

    A plain value matches exactly, with JSON types: 1 == 1.0, true != 1, "1" != 1; arrays in order; objects with the same
    keys. An object whose one key begins with `$` is one of `MATCHERS`. A Python callable is asked with the value.

    Args:
        spec: JSON value, `{"$name": operand}`, or a callable `(value) -> bool`.

    Raises:
        ConfigurationError: an unknown `$name` or an operand it cannot use; the message lists the known names.
    """
    if callable(spec):
        return _by_predicate(getattr(spec, "__name__", "a callable"), spec)
    if isinstance(spec, Mapping):
        names = [key for key in spec if isinstance(key, str) and key.startswith("$")]
        if not names:
            return _object(spec, extra_allowed=False)
        if len(spec) != 1 or names[0] not in MATCHERS:
            raise ConfigurationError(f"matcher {dict(spec)!r}: use exactly one of {', '.join(sorted(MATCHERS))}")
        try:
            return MATCHERS[names[0]](spec[names[0]])
        except (TypeError, ValueError, re.error) as error:
            raise ConfigurationError(f"matcher {names[0]!r} cannot use {spec[names[0]]!r}: {error}") from error
    if isinstance(spec, (list, tuple)):
        return _sequence([compile_matcher(item) for item in spec])
    return _exact(spec)


def _by_predicate(wanted: str, test: Callable[[Any], Any], *, optional: bool = False) -> Matcher:
    def compare(value: Any, path: str) -> tuple[Mismatch, ...]:
        try:
            is_match = bool(test(value))
        except Exception as error:  # a test of foreign values must not stop the evaluation: it did not match
            return (Mismatch(path, f"{wanted} (raised {type(error).__name__})", canonical(value)),)
        return () if is_match else (Mismatch(path, wanted, canonical(value)),)

    return Matcher(wanted, compare, optional)


def _exact(spec: Any) -> Matcher:
    form = canonical(spec)
    return _by_predicate(form, lambda value: canonical(value) == form)


def _object(spec: Mapping[str, Any], *, extra_allowed: bool) -> Matcher:
    return _members({key: compile_matcher(item) for key, item in spec.items()}, extra_allowed=extra_allowed)


def _members(members: Mapping[str, Matcher], *, extra_allowed: bool) -> Matcher:
    inside = ", ".join(f"{key}: {member.wanted}" for key, member in members.items())
    wanted = f"{{{inside}{', ...' if extra_allowed else ''}}}"

    def compare(value: Any, path: str) -> tuple[Mismatch, ...]:
        if not isinstance(value, Mapping):
            return (Mismatch(path, wanted, canonical(value)),)
        found: list[Mismatch] = []
        for key, member in members.items():
            where = f"{path}.{key}" if path else key
            if key in value:
                found.extend(member.compare(value[key], where))
            elif not member.optional:
                found.append(Mismatch(where, member.wanted, "missing"))
        if not extra_allowed:
            found.extend(
                Mismatch(f"{path}.{key}" if path else str(key), NOT_WANTED, canonical(value[key]))
                for key in value
                if key not in members
            )
        return tuple(found)

    return Matcher(wanted, compare)


def _sequence(members: list[Matcher]) -> Matcher:
    wanted = f"[{', '.join(member.wanted for member in members)}]"

    def compare(value: Any, path: str) -> tuple[Mismatch, ...]:
        if not isinstance(value, (list, tuple)) or len(value) != len(members):
            return (Mismatch(path, wanted, canonical(value)),)
        pairs = enumerate(zip(members, value, strict=True))
        return tuple(miss for index, (member, item) in pairs for miss in member.compare(item, f"{path}[{index}]"))

    return Matcher(wanted, compare)


def _one_of(operand: Any) -> Matcher:
    options = [compile_matcher(item) for item in _list(operand)]
    wanted = "one of " + ", ".join(option.wanted for option in options)
    return _by_predicate(wanted, lambda value: any(option.matches(value) for option in options))


def _regex(operand: Any) -> Matcher:
    pattern = re.compile(operand)
    return _by_predicate(
        f"text that matches {operand!r}", lambda value: isinstance(value, str) and pattern.search(value) is not None
    )


def _range(operand: Any) -> Matcher:
    low, high = (_bound(item) for item in _list(operand))
    if low is not None and high is not None and low > high:
        raise ValueError("the lower bound is above the upper")

    def test(value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            return False
        return (low is None or value >= low) and (high is None or value <= high)

    return _by_predicate(
        f"a number from {low if low is not None else '-inf'} to {high if high is not None else 'inf'}", test
    )


def _bound(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{value!r} is not a number")
    return value


def _set(operand: Any) -> Matcher:
    wanted = sorted(canonical(item) for item in _list(operand))
    return _by_predicate(
        f"in any order [{', '.join(wanted)}]",
        lambda value: isinstance(value, (list, tuple)) and sorted(canonical(item) for item in value) == wanted,
    )


def _subset(operand: Any) -> Matcher:
    if isinstance(operand, Mapping):
        return _object(operand, extra_allowed=True)
    members = [compile_matcher(item) for item in _list(operand)]
    wanted = f"a list that holds {', '.join(member.wanted for member in members)}"

    def test(value: Any) -> bool:
        return isinstance(value, (list, tuple)) and all(
            any(member.matches(item) for item in value) for member in members
        )

    return _by_predicate(wanted, test)


def _ignore(operand: Any) -> Matcher:
    return _by_predicate("anything", lambda value: True, optional=True)


def _optional(operand: Any) -> Matcher:
    inner = compile_matcher(operand)
    return Matcher(f"{inner.wanted} or left out", inner.compare, optional=True)


def _literal(operand: Any) -> Matcher:
    """Match a value as it stands: a `$` in it means nothing. Differences are found member by member."""
    if isinstance(operand, Mapping):
        return _members({key: _literal(item) for key, item in operand.items()}, extra_allowed=False)
    if isinstance(operand, (list, tuple)):
        return _sequence([_literal(item) for item in operand])
    return _exact(operand)


def _list(operand: Any) -> list[Any]:
    if not isinstance(operand, (list, tuple)):
        raise TypeError("a list is needed")
    return list(operand)


MATCHERS: Final[dict[str, Callable[[Any], Matcher]]] = {
    "$exact": _literal,
    "$ignore": _ignore,
    "$one_of": _one_of,
    "$optional": _optional,
    "$range": _range,
    "$regex": _regex,
    "$set": _set,
    "$subset": _subset,
}
"""Name in the gold -> compiler. `$subset` takes an object (extra keys allowed) or a list (extra items allowed)."""
