"""Check the options of a constraint where it is made, so that a wrong one never waits for a call."""

from __future__ import annotations

from collections.abc import Callable, Collection
from inspect import Parameter, iscoroutinefunction, signature
from math import isfinite
from typing import Any, Final, get_args

from fcguard.errors import ConfigurationError
from fcguard.model.failure import Effect

__all__ = [
    "EFFECTS",
    "WRITES",
    "check_count",
    "check_effects",
    "check_rate",
    "check_seconds",
    "is_async_callable",
    "takes_call",
]

EFFECTS: Final = frozenset(get_args(Effect))
"""Every kind of effect a tool can have."""

WRITES: Final = EFFECTS - {"read"}
"""The kinds that change the world."""

_POSITIONAL: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.VAR_POSITIONAL)


def check_count(owner: str, name: str, value: Any, minimum: int = 1) -> int:
    """Answer a whole number that is at least `minimum`.

    Raises:
        ConfigurationError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ConfigurationError(f"{owner}: {name}={value!r}; give a whole number of at least {minimum}")
    return value


def check_seconds(owner: str, name: str, value: Any) -> float:
    """Answer a finite, positive number of seconds.

    Raises:
        ConfigurationError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value) or value <= 0:
        raise ConfigurationError(f"{owner}: {name}={value!r}; give a number of seconds above 0")
    return float(value)


def check_rate(owner: str, name: str, value: Any) -> float:
    """Answer a rate above 0 and up to 1.

    Raises:
        ConfigurationError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        raise ConfigurationError(f"{owner}: {name}={value!r}; give a rate above 0 and up to 1 (0.5 is one half)")
    return float(value)


def takes_call(fn: Callable[..., Any]) -> bool:
    """Answer whether a check wants the call as its argument; one without parameters is asked with none."""
    try:
        parameters = signature(fn).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(parameter.kind in _POSITIONAL for parameter in parameters)


def is_async_callable(fn: Any) -> bool:
    """Answer whether calling `fn` gives something to await."""
    return iscoroutinefunction(fn) or iscoroutinefunction(type(fn).__call__)


def check_effects(owner: str, effects: Collection[str]) -> frozenset[str]:
    """Answer the kinds of effect that a constraint looks at.

    Raises:
        ConfigurationError: there is none, or one is unknown.
    """
    chosen = frozenset((effects,) if isinstance(effects, str) else effects)
    if not chosen or not chosen <= EFFECTS:
        raise ConfigurationError(f"{owner}: effects={sorted(chosen)!r}; choose from {', '.join(sorted(EFFECTS))}")
    return chosen
