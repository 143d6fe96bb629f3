"""Dotted paths into arguments: `url`, `filter.url`, `urls[*]`, `items[0].name`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from fcguard.errors import ConfigurationError

__all__ = ["WRONG_SHAPE", "Selector", "selectors"]

_STEP: Final = re.compile(r"(?:^|\.)(?P<key>[^.\[\]]+)|\[(?P<index>\*|\d{1,6})\]")


class _WrongShape:
    """Stands for a value that cannot be reached: a container on the way is missing its expected type."""

    def __repr__(self) -> str:
        return "<a value of another shape>"


WRONG_SHAPE: Final = _WrongShape()


class Selector:
    """Where a rule looks in the arguments.

    Attributes:
        text: the path as it was written.
    """

    __slots__ = ("_key", "_steps", "text")

    def __init__(self, text: str, owner: str = "rule") -> None:
        """Compile a path.

        Raises:
            ConfigurationError: it is not a path.
        """
        self.text = text
        self._steps: tuple[str | int | None, ...] = tuple(_steps(text, owner))
        self._key = text if self._steps == (text,) else None

    def find(self, arguments: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Answer the values at the path, each with its own path; nothing for what was not sent.

        A container of another type on the way answers `WRONG_SHAPE`, which every rule refuses as a wrong type.
        """
        key = self._key
        if key is not None:
            return [(key, arguments[key])] if key in arguments else []
        found: list[tuple[str, Any]] = [("", arguments)]
        for step in self._steps:
            found = [deeper for path, value in found for deeper in _descend(path, value, step)]
        return found

    def check(self, parameters: Mapping[str, Any], owner: str) -> None:
        """Compare the head of the path with a JSON Schema.

        Raises:
            ConfigurationError: the schema lists its properties and this is none of them, so that the rule would never look.
        """
        properties = parameters.get("properties")
        head = self._steps[0]
        if not isinstance(properties, Mapping) or head in properties or not _OPEN.isdisjoint(parameters):
            return
        if parameters.get("additionalProperties", False) is not False:
            return
        known = ", ".join(sorted(map(str, properties))) or "none"
        raise ConfigurationError(
            f"{owner} looks at {self.text!r}, but the tool has no parameter {head!r}; it has: {known}"
        )

    def __repr__(self) -> str:
        return repr(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selector) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


_OPEN: Final = frozenset(
    {"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas"}
)
"""Keywords through which a schema can allow properties that it does not list at the top."""


def selectors(paths: str | Iterable[str], owner: str) -> tuple[Selector, ...]:
    """Compile one path or several.

    Raises:
        ConfigurationError: there is none, or one is not a path.
    """
    texts = (paths,) if isinstance(paths, str) else tuple(paths)
    if not texts:
        raise ConfigurationError(f"{owner}: name at least one parameter to look at")
    return tuple(Selector(text, owner) for text in texts)


def _steps(text: str, owner: str) -> Iterable[str | int | None]:
    position = 0
    while isinstance(text, str) and (match := _STEP.match(text, position)):
        index = match["index"]
        if position == 0 and (index is not None or text.startswith(".")):
            break
        yield match["key"] if index is None else None if index == "*" else int(index)
        position = match.end()
    if not isinstance(text, str) or not text or position != len(text):
        raise ConfigurationError(
            f"{owner}: {text!r} is not a path; write 'url', 'filter.url', 'urls[*]' or 'items[0].name'"
        )


def _descend(path: str, value: Any, step: str | int | None) -> list[tuple[str, Any]]:
    if value is None:
        return []
    if isinstance(step, str):
        deeper = f"{path}.{step}" if path else step
        if not isinstance(value, Mapping):
            return [(deeper, WRONG_SHAPE)]
        return [(deeper, value[step])] if step in value else []
    if not isinstance(value, list | tuple):
        return [(f"{path}[{'*' if step is None else step}]", WRONG_SHAPE)]
    if step is None:
        return [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    return [(f"{path}[{step}]", value[step])] if step < len(value) else []
