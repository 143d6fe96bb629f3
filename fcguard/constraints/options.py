"""Check the options of a constraint where it is made, so that a wrong one never waits for a call."""

from __future__ import annotations

from math import isfinite
from typing import Any

from fcguard.errors import ConfigurationError

__all__ = ["check_count", "check_rate", "check_seconds"]


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
