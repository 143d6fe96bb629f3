"""The rule against arguments that ask for everything: `*`, `%`, an empty filter, a huge limit."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from fcguard.errors import ConfigurationError
from fcguard.model.failure import ErrorType, Violation
from fcguard.rules.base import BaseRule
from fcguard.rules.parameters import ParameterRule, refusal
from fcguard.rules.protocols import RuleCall, Verdict
from fcguard.rules.selectors import Selector, selectors

__all__ = ["BROAD_WORDS", "is_broad", "not_too_broad"]

BROAD_WORDS: Final = frozenset(
    {"all", "any", "everything", "everyone", "every", "anything", "full", "unlimited"}
    | {"null", "none", "undefined", "true", "1=1", "select *"}
    | {"全部", "所有", "任意", "全量", "不限", "一切", "全体"}
)
"""Words that ask for everything, in lower case."""

_WILDCARDS: Final = re.compile(r"[\s*%_?.+^$()\[\]{}|\\/'\"`,;:~@#&!=<>-]*")
_SIGNS: Final = " *%_?.^$()[]{}|\\/'\"`,;:~@!=<>-"
"""Wildcards and punctuation around a word, which do not make it narrower."""
_UNSEEN: Final = frozenset({"Cf", "Cc", "Zs", "Zl", "Zp", "Mn"})


def not_too_broad(
    *parameters: str, limit: str | Iterable[str] = (), max_limit: int = 1000, broad_words: frozenset[str] = BROAD_WORDS
) -> BaseRule:
    """Refuse arguments that ask for everything (`PARAM_TOO_BROAD`).

    Too broad is a text of wildcards and punctuation only, a word such as "all", an empty text, list or filter object, and
    a filter whose every value is too broad. A parameter that was not sent is left to the schema.

    Args:
        parameters: dotted paths of filters, keywords and patterns.
        limit: dotted paths of limits and page sizes.
        max_limit: largest limit; zero and negative limits often mean "no limit" and are refused too.
        broad_words: words that ask for everything, in lower case; replaces the default list.

    Raises:
        ConfigurationError: nothing to look at, or a limit below 1.
    """
    limits = (limit,) if isinstance(limit, str) else tuple(limit)
    if isinstance(max_limit, bool) or not isinstance(max_limit, int) or max_limit < 1:
        raise ConfigurationError(f"not_too_broad: max_limit must be a whole number of at least 1, got {max_limit!r}")
    both = selectors((*parameters, *limits), "not_too_broad")
    return _NotTooBroad(both, frozenset(limits), max_limit, frozenset(broad_words))


@dataclass(frozen=True, slots=True, repr=False)
class _NotTooBroad(ParameterRule):
    name: ClassVar[str] = "not_too_broad"
    selectors: tuple[Selector, ...]
    limits: frozenset[str]
    max_limit: int
    broad_words: frozenset[str]

    def __call__(self, call: Any) -> Verdict:
        for selector in self.selectors:
            found = selector.find(call.arguments)
            if not found:
                selector.check(call.tool.parameters, self.name)
            judge = self._limit if selector.text in self.limits else self.examine
            for path, value in found:
                if value is not None and (violation := judge(path, value, call)) is not None:
                    return violation
        return None

    def examine(self, path: str, value: Any, call: RuleCall) -> Verdict:
        if not isinstance(value, str | int | float | list | tuple | Mapping):
            return refusal(self.name, path, "must be a text, a number, a list or an object")
        if not is_broad(value, self.broad_words):
            return None
        return self._refuse(
            path, "asks for everything; name what you are looking for (an id, a name, a status, a time range)"
        )

    def _limit(self, path: str, value: Any, call: RuleCall) -> Verdict:
        if isinstance(value, bool) or not isinstance(value, int):
            return refusal(self.name, path, f"must be a whole number from 1 to {self.max_limit}")
        if 1 <= value <= self.max_limit:
            return None
        return self._refuse(path, f"is {value}; use 1 to {self.max_limit}, and page through the rest")

    def _refuse(self, path: str, message: str) -> Violation:
        return refusal(self.name, path, message, code=ErrorType.PARAM_TOO_BROAD)


def is_broad(value: Any, broad_words: frozenset[str] = BROAD_WORDS) -> bool:
    """Tell whether a value asks for everything: wildcards, a word such as "all", or nothing at all."""
    if isinstance(value, str):
        folded = unicodedata.normalize("NFKC", value).strip().casefold()
        seen = "".join(letter for letter in folded if unicodedata.category(letter) not in _UNSEEN or letter == " ")
        if _WILDCARDS.fullmatch(seen) is not None:
            return True
        return not broad_words.isdisjoint((seen, seen.strip(_SIGNS), seen.strip(_SIGNS).replace(" ", "")))
    if isinstance(value, Mapping):
        return all(is_broad(item, broad_words) for item in value.values())
    if isinstance(value, list | tuple):
        return not value or any(is_broad(item, broad_words) for item in value)
    return value is None
