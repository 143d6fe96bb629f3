"""Decides validity with jsonschema-rs: formats asserted, references kept local, patterns bounded in time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import jsonschema_rs as rs

from fcguard.arguments.tree import SchemaTree

__all__ = ["DRAFTS", "NEVER", "Engine", "FormatCheck", "compiles", "stand_in"]

FormatCheck: TypeAlias = Callable[[str], bool]

DRAFTS: Final[Mapping[str, tuple[type[rs.Validator], int, bool]]] = {
    "http://json-schema.org/draft-04/schema": (rs.Draft4Validator, rs.Draft4, True),
    "http://json-schema.org/draft-06/schema": (rs.Draft6Validator, rs.Draft6, True),
    "http://json-schema.org/draft-07/schema": (rs.Draft7Validator, rs.Draft7, True),
    "https://json-schema.org/draft/2019-09/schema": (rs.Draft201909Validator, rs.Draft201909, False),
    "https://json-schema.org/draft/2020-12/schema": (rs.Draft202012Validator, rs.Draft202012, False),
}
"""`$schema` without its empty fragment -> validator, number of the draft, and whether `$ref` hides its siblings."""

NEVER: Final = r"[^\s\S]"
"""A pattern that matches nothing; it takes the place of a pattern that is not valid."""

_BACKTRACKS: Final = 100_000
"""Steps back that a pattern with look-around or back-references may take, about 2 ms; then the value is refused.
Patterns without those run in linear time and are not limited."""

_URN: Final = "urn:fcguard:parameters"
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_STAND_IN: Final = 0x10F000
_STAND_INS: Final = re.compile("[\U0010f000-\U0010f7ff]")


def compiles(pattern: str) -> bool:
    """Answer whether a pattern can be used at all."""
    try:
        rs.Draft202012Validator({"pattern": pattern}, offline=True)
    except (rs.ValidationError, ValueError):
        return False
    return True


class Engine:
    """The validators of one mended schema, each compiled when it is first needed.

    Attributes:
        root: the schema.
        tree: what can be read off the schema.
        validator: the validator of the whole schema.

    Args:
        root: the schema, free of other people's references to it.
        dialect: a key of `DRAFTS`.
        formats: own format checks by name, beside or instead of the built-in ones.

    Raises:
        jsonschema_rs.ValidationError: the schema is not valid, or holds a reference that cannot be resolved locally.
    """

    __slots__ = ("_formats", "_kind", "_registry", "_subs", "draft", "root", "tree", "validator")

    def __init__(self, root: dict[str, Any], dialect: str, formats: Mapping[str, FormatCheck] | None = None) -> None:
        self.root = root
        self._kind, self.draft, hides_siblings = DRAFTS[dialect]
        self.tree = SchemaTree(root, hides_siblings=hides_siblings)
        self._formats = {name: _guarded(check) for name, check in formats.items()} if formats else None
        self._subs: dict[int | str, rs.Validator] = {}
        self._registry: rs.Registry | None = None
        self.validator = self.compile(root)

    def compile(self, schema: Any, **options: Any) -> rs.Validator:
        """Compile a schema of this engine's dialect, with its formats and limits.

        Args:
            schema: the schema.
            options: further options of jsonschema-rs.
        """
        return self._kind(
            schema,
            validate_formats=True,
            ignore_unknown_formats=True,
            offline=True,
            pattern_options=rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS),
            email_options=rs.EmailOptions(allow_display_text=False),
            formats=self._formats,
            **options,
        )

    def compile_part(self, schema: dict[str, Any], **options: Any) -> rs.Validator:
        """Compile one subschema of the root (the very object, not a copy); its references lead into the root."""
        if self._registry is None:
            self._registry = rs.Registry([(_URN, self.root)], draft=self.draft)
        return self.compile({"$ref": f"{_URN}#{self.tree.pointer(schema)}"}, registry=self._registry, **options)

    def is_valid(self, value: Any) -> bool:
        """Decide a plain JSON value."""
        return self._decide(self.validator, value)

    def fits(self, schema: Any, value: Any) -> bool:
        """Decide a plain JSON value for one subschema of the root (the very object, not a copy)."""
        if isinstance(schema, bool):
            return schema
        return self._decide(self._sub(schema), value)

    def has_format(self, name: str, value: str) -> bool:
        """Decide whether a text has a format."""
        return self._decide(self._keyword("format", name), value)

    def matches(self, pattern: str, text: str) -> bool:
        """Decide whether a pattern of the schema is found in a text."""
        return self._decide(self._keyword("pattern", pattern), text)

    def _decide(self, validator: rs.Validator, value: Any) -> bool:
        try:
            return validator.is_valid(value)
        except UnicodeEncodeError:  # half a surrogate pair, which UTF-8 cannot write
            return _STAND_INS.search(json.dumps(self.root, ensure_ascii=False)) is None and validator.is_valid(
                stand_in(value)
            )

    def _sub(self, schema: dict[str, Any]) -> rs.Validator:
        found = self._subs.get(id(schema))
        if found is None:
            found = self._subs[id(schema)] = self.compile_part(schema)
        return found

    def _keyword(self, keyword: str, argument: str) -> rs.Validator:
        found = self._subs.get(f"{keyword}:{argument}")
        if found is None:
            found = self._subs[f"{keyword}:{argument}"] = self.compile({keyword: argument})
        return found


def _guarded(check: FormatCheck) -> FormatCheck:
    def decide(text: str) -> bool:
        try:
            return bool(check(text))
        except Exception:  # a check that cannot decide refuses
            return False

    return decide


def stand_in(value: Any) -> Any:
    """Put a private character in the place of each half surrogate, so that lengths and differences stay as they are."""
    if isinstance(value, str):
        return _SURROGATE.sub(lambda found: chr(ord(found[0]) - 0xD800 + _STAND_IN), value)
    if isinstance(value, dict):
        return {key: stand_in(item) for key, item in value.items()}
    return [stand_in(item) for item in value] if isinstance(value, list) else value
