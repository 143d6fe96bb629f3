"""A measured value that is a number or says why it is not: ok, not applicable, untested, unknown; never NaN."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

__all__ = ["Value", "ValueState", "not_applicable", "ok", "ratio", "unknown", "untested"]

ValueState: TypeAlias = Literal["ok", "not_applicable", "untested", "unknown"]


@dataclass(frozen=True, slots=True)
class Value:
    """One measured value.

    Attributes:
        state: `ok`: there is a number. `not_applicable`: the question has no meaning here. `untested`: nothing happened
            that could have answered it. `unknown`: it could have been answered, but the record does not hold enough.
        number: the number, only if `state` is `ok`.
        k: how many of the `n` things the number counts (a rate), or how many went into the mean.
        n: of how many.
        reason: why there is no number.
    """

    state: ValueState
    number: float | None = None
    k: int | None = None
    n: int | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        if (self.state == "ok") != (self.number is not None):
            raise ValueError(f"a value in state {self.state!r} cannot hold the number {self.number!r}")
        if self.number is not None and not math.isfinite(self.number):
            raise ValueError(f"{self.number!r} is not a finite number; use unknown(reason)")

    @property
    def is_ok(self) -> bool:
        """Whether there is a number."""
        return self.state == "ok"

    def require(self) -> float:
        """Answer the number.

        Raises:
            ValueError: there is none; the message says why.
        """
        if self.number is None:
            raise ValueError(f"no number: {self.state}: {self.reason or 'no reason given'}")
        return self.number

    def text(self, *, percent: bool = False, digits: int = 1) -> str:
        """Render for people: the number with its `k of n`, or the state with its reason.

        Args:
            percent: print the number times 100 with a percent sign.
            digits: digits after the point.
        """
        if self.number is None:
            words = self.state.replace("_", " ")
            return f"{words} ({self.reason})" if self.reason else words
        shown = f"{self.number * 100:.{digits}f}%" if percent else f"{self.number:.{digits}f}"
        return f"{shown} ({self.k} of {self.n})" if self.n is not None else shown

    def as_json(self) -> dict[str, Any]:
        """Answer a plain dict that holds only the fields that are set; numbers are rounded to 12 digits."""
        answer: dict[str, Any] = {"state": self.state}
        if self.number is not None:
            answer["value"] = round(self.number, 12)
        if self.n is not None:
            answer["k"], answer["n"] = self.k, self.n
        if self.reason:
            answer["reason"] = self.reason
        return answer


def ok(number: float, *, k: int | None = None, n: int | None = None) -> Value:
    """Make a value that holds a number."""
    return Value("ok", float(number), k, n)


def not_applicable(reason: str) -> Value:
    """Make a value for a question that has no meaning here."""
    return Value("not_applicable", reason=reason)


def untested(reason: str) -> Value:
    """Make a value for a thing that never had the chance to happen."""
    return Value("untested", reason=reason)


def unknown(reason: str) -> Value:
    """Make a value for a thing that happened but was not recorded well enough to count."""
    return Value("unknown", reason=reason)


def ratio(k: int, n: int, *, empty: Value | None = None) -> Value:
    """Make the rate k / n.

    Args:
        k: how many count.
        n: of how many.
        empty: the answer when `n` is 0; default: not applicable.
    """
    if n == 0:
        return empty if empty is not None else not_applicable("nothing to count")
    return ok(k / n, k=k, n=n)
