"""What must never be written down in clear: secret names, secret values, and the mask that replaces them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from operator import is_ as _is
from typing import Any, Final

__all__ = ["MASK", "PLAIN_REDACTOR", "Redactor", "is_secret_name", "may_hold_secrets", "secret_properties"]

MASK: Final = "[redacted]"

_WORDS: Final = re.compile(
    r"pass(word|wd|phrase|code)|secret|(?<!page_)(?<!next_)(?<!continuation_)(?<!sync_)(?<!cursor_)(?<!pagination_)token(?!s$|_?count|_?usage|_?limit|izer)|api_?key|access_?key|private_?key|signing_?key"
    r"|authorization|(^|_)auth($|_(?!or))|credential|cookie|session_?key|bearer|(^|_)pin($|_)|(^|_)otp($|_)|(^|_)cvv2?($|_)|(^|_)pwd($|_)"
)
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_JSON_SECRET: Final = re.compile(
    r"""(?P<head>["'](?P<name>[\w.-]{2,64})["']\s*:\s*)(?P<value>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
)
_HEADER_SECRET: Final = re.compile(
    r"(?i)\b((?:proxy-)?authorization\s*[:=]\s*(?:bearer|basic|digest|token)?\s*|bearer\s+)[^\s,;\"']{4,}"
)
_PAIR_SECRET: Final = re.compile(
    r"(?i)\b([\w-]*(?:password|passwd|secret|token|api[_-]?key|credential)[\w-]*\s*[=:]\s*)(?!\[redacted\])[^\s,;&\"']{3,}"
)
_URL_SECRET: Final = re.compile(r"(?i)\b([a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,256}:)[^\s/@]{1,256}@")

_known: dict[str, bool] = {}


def is_secret_name(name: str) -> bool:
    """Answer whether a field of this name holds a secret (password, token, api_key, authorization, cookie, ...)."""
    found = _known.get(name)
    if found is None:
        found = _WORDS.search(_CAMEL.sub("_", name[:200]).lower().replace("-", "_").replace(" ", "_")) is not None
        if len(_known) < 10_000:
            _known[name] = found
    return found


def secret_properties(schema: Mapping[str, Any], extra: Collection[str] = ()) -> frozenset[str]:
    """Name the properties, at any depth, that a schema or its user marks as secret (`writeOnly`, `format: password`, name)."""
    names = set(extra)

    def walk(node: Any, depth: int) -> None:
        if depth > 64:
            return
        if isinstance(node, Mapping):
            properties = node.get("properties")
            if isinstance(properties, Mapping):
                for name, sub in properties.items():
                    if isinstance(sub, Mapping) and (sub.get("writeOnly") is True or sub.get("format") == "password"):
                        names.add(name)
            for sub in node.values():
                walk(sub, depth + 1)
        elif isinstance(node, list):
            for sub in node:
                walk(sub, depth + 1)

    walk(schema, 0)
    return frozenset(names)


def may_hold_secrets(schema: Mapping[str, Any], secrets: Collection[str]) -> bool:
    """Answer whether arguments of this schema can hold a field with a secret name: it has one, or it is open somewhere."""
    if secrets:
        return True

    def walk(node: Any, depth: int) -> bool:
        if depth > 64:
            return True
        if isinstance(node, Mapping):
            properties = node.get("properties")
            kind = node.get("type")
            is_object = (
                isinstance(properties, Mapping) or kind == "object" or (isinstance(kind, list) and "object" in kind)
            )
            if is_object and node.get("additionalProperties", True) is not False:
                return True
            if isinstance(properties, Mapping) and any(is_secret_name(str(name)) for name in properties):
                return True
            return "$ref" in node or any(walk(sub, depth + 1) for sub in node.values())
        return isinstance(node, list) and any(walk(sub, depth + 1) for sub in node)

    return walk(schema, 0)


class Redactor:
    """Masks secrets in JSON values and texts.

    Args:
        names: field names that are secret beside those `is_secret_name` knows.
        values: secret texts that are masked wherever they occur (shorter than 4 characters are left alone).
    """

    __slots__ = ("_names", "_values")

    def __init__(self, names: Iterable[str] = (), values: Iterable[str] = ()) -> None:
        self._names = frozenset(names)
        self._values = tuple(sorted({value for value in values if len(value) >= 4}, key=len, reverse=True))

    def is_secret(self, name: str) -> bool:
        """Answer whether a field of this name is masked."""
        return name in self._names or is_secret_name(name)

    def with_values(self, values: Iterable[str]) -> Redactor:
        """Answer a redactor that also masks these texts."""
        return Redactor(self._names, (*self._values, *values))

    def secret_values(self, value: Any) -> Iterator[str]:
        """Yield every text that lies under a secret name in a JSON value."""
        for name, item in _pairs(value):
            if self.is_secret(name):
                yield from _texts(item)

    def value(self, value: Any) -> Any:
        """Answer a JSON value with secrets masked; the same object if there are none."""
        if isinstance(value, dict):
            changed = self._changes(value)
            return {**value, **changed} if changed else value
        if isinstance(value, list):
            items = [self._item(item) for item in value]
            return value if all(map(_is, items, value)) else items
        return self._item(value)

    def _changes(self, value: dict[str, Any]) -> dict[str, Any]:
        names, known = self._names, _known
        changed: dict[str, Any] = {}
        for name, item in value.items():
            kind = item.__class__
            if item is None or kind is bool:
                continue
            is_secret = known.get(name)
            if (is_secret_name(name) if is_secret is None else is_secret) or name in names:
                changed[name] = MASK
            elif kind is str:
                if self._values or ":" in item or "=" in item or "earer" in item:
                    new: Any = self.text(item)
                    if new is not item:
                        changed[name] = new
            elif kind is not int and kind is not float:
                new = self.value(item)
                if new is not item:
                    changed[name] = new
        return changed

    def _item(self, item: Any) -> Any:
        if item.__class__ is str:
            return self.text(item)
        return self.value(item) if isinstance(item, (dict, list)) else item

    def text(self, text: str) -> str:
        """Answer a text with known secret values, JSON fields, headers, `key=value` pairs and URL passwords masked."""
        original = text
        for secret in self._values:
            if secret in text:
                text = text.replace(secret, MASK)
        if ":" in text or "=" in text or "earer" in text:
            if '"' in text or "'" in text:
                text = _JSON_SECRET.sub(self._mask_field, text)
            text = _HEADER_SECRET.sub(rf"\1{MASK}", text)
            text = _PAIR_SECRET.sub(rf"\1{MASK}", text)
            if "://" in text:
                text = _URL_SECRET.sub(rf"\1{MASK}@", text)
        return original if text == original else text

    def _mask_field(self, match: re.Match[str]) -> str:
        if not self.is_secret(match["name"]):
            return match[0]
        quote = match["value"][0]
        return f"{match['head']}{quote}{MASK}{quote}"


PLAIN_REDACTOR: Final = Redactor()
"""Masks what is secret by name or by form alone."""


def _pairs(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield name, item
            yield from _pairs(item)
    elif isinstance(value, list):
        for item in value:
            yield from _pairs(item)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, int) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
