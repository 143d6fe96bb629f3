"""The rule that a search names a time range or a thing, and does not ask for everything."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from fcguard.errors import ConfigurationError
from fcguard.model.failure import ErrorType, Problem, Violation
from fcguard.rules.base import BaseRule
from fcguard.rules.breadth import is_broad
from fcguard.rules.protocols import Verdict
from fcguard.rules.selectors import Selector
from fcguard.rules.vocabulary import CHINESE, ENGLISH, SearchVocabulary

__all__ = ["search_scope"]


def search_scope(
    query: str | None = "query",
    *,
    times: Iterable[str] = (),
    entities: Iterable[str] = (),
    needs: str = "either",
    vocabulary: SearchVocabulary = ENGLISH + CHINESE,
) -> BaseRule:
    """Refuse a search without a time range or a named thing (`PARAM_TOO_BROAD`).

    Args:
        query: dotted path of the search text; None: there is none.
        times: dotted paths of parameters that bound the time (`from`, `since`); one that is sent counts.
        entities: dotted paths of parameters that name a thing (`order_id`); one that is sent counts, unless it asks for
            everything (`*`, an empty text).
        needs: `either`, `time`, `entity` or `both`.
        vocabulary: words by which the text names times and things; default: English and Chinese.

    Raises:
        ConfigurationError: nothing to look at, or `needs` is none of these words.
    """
    if needs not in ("either", "time", "entity", "both"):
        raise ConfigurationError(f"search_scope: needs={needs!r}: use 'either', 'time', 'entity' or 'both'")
    if not isinstance(vocabulary, SearchVocabulary):
        raise ConfigurationError("search_scope: vocabulary must be a SearchVocabulary")

    def compiled(paths: Iterable[str]) -> tuple[Selector, ...]:
        return tuple(Selector(path, "search_scope") for path in ((paths,) if isinstance(paths, str) else paths))

    text = None if query is None else Selector(query, "search_scope")
    rule = _SearchScope(text, compiled(times), compiled(entities), needs, vocabulary)
    if not rule.parameters:
        raise ConfigurationError(
            "search_scope: name the parameters: query='query', times=['since'], entities=['order_id']"
        )
    return rule


@dataclass(frozen=True, slots=True, repr=False)
class _SearchScope(BaseRule):
    name: ClassVar[str] = "search_scope"
    query: Selector | None
    times: tuple[Selector, ...]
    entities: tuple[Selector, ...]
    needs: str
    vocabulary: SearchVocabulary

    @property
    def parameters(self) -> tuple[Selector, ...]:
        """Every path that the rule looks at."""
        return (*((self.query,) if self.query is not None else ()), *self.times, *self.entities)

    def __call__(self, call: Any) -> Verdict:
        arguments = call.arguments
        texts: list[str] = []
        for path, value in self.query.find(arguments) if self.query is not None else ():
            if value is not None and not isinstance(value, str):
                return self._refuse(path, "must be a text", ErrorType.PARAM_INVALID)
            texts.append(unicodedata.normalize("NFKC", value or ""))
        has_time = _is_sent(self.times, arguments) or any(map(self.vocabulary.names_time, texts))
        has_entity = _is_sent(self.entities, arguments) or any(map(self.vocabulary.names_entity, texts))
        if {"either": has_time or has_entity, "time": has_time, "entity": has_entity, "both": has_time and has_entity}[
            self.needs
        ]:
            return None
        self.check(call.tool.parameters)
        return self._refuse(
            self.parameters[0].text, f"searches without bounds; name {self._wanted()}", ErrorType.PARAM_TOO_BROAD
        )

    def check(self, parameters: Mapping[str, Any]) -> None:
        for selector in self.parameters:
            selector.check(parameters, self.name)

    def _wanted(self) -> str:
        time = "a time range" + _or_parameters(self.times) + " (such as 'last 7 days', '2026-01-30', '最近7天')"
        entity = "one thing by its number or name" + _or_parameters(self.entities) + " (such as 'order A20260130001')"
        return {"either": f"{time}, or {entity}", "time": time, "entity": entity, "both": f"{time}, and {entity}"}[
            self.needs
        ]

    def _refuse(self, path: str, message: str, code: str) -> Violation:
        return Violation(code, f"{path}: {message}", "fix_arguments", problems=(Problem(path, self.name, message),))


def _is_sent(paths: tuple[Selector, ...], arguments: Mapping[str, Any]) -> bool:
    values = [value for selector in paths for _, value in selector.find(arguments)]
    return any(
        isinstance(value, str | int | float | list | tuple | Mapping)
        and not isinstance(value, bool)
        and not is_broad(value)
        for value in values
    )


def _or_parameters(paths: tuple[Selector, ...]) -> str:
    return f" ({', '.join(selector.text for selector in paths)})" if paths else ""
