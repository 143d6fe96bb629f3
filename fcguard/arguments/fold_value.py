"""Folds a single value that is not what its schema wants: enum, type, date. One meaning, or it stays."""

from __future__ import annotations

from typing import Any, Final

from fcguard.arguments.changes import Changes
from fcguard.arguments.dates import DATE_FORMATS, readings
from fcguard.arguments.engine import Engine
from fcguard.arguments.numerals import integral
from fcguard.arguments.parse import MAX_DEPTH
from fcguard.arguments.records import Path
from fcguard.arguments.scalars import comma_list, enum_member, is_member, text_as, types_of

__all__ = ["fold_value", "fold_whole"]

_TEXT_ONLY: Final = frozenset({"string", "null"})


def fold_value(
    engine: Engine, schema: dict[str, Any], value: Any, path: Path, changes: Changes, *, is_read: bool
) -> Any:
    """Fold a text, number, flag or null by the keywords of one schema object; references and unions are not followed.

    Args:
        engine: decides formats.
        schema: the schema object.
        value: what was sent; no object or array.
        path: where it stands.
        changes: gets the record.
        is_read: whether the tool only reads.

    Returns:
        What is meant; the value itself if that is not certain.
    """
    types = types_of(schema)
    if isinstance(value, float):
        return fold_whole(schema, value, path, changes)
    members = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(members, list) and value is not None and not is_member(value, members):
        member = enum_member(value, members)
        return value if member is None else changes.convert(path, "enum", value, member)
    if isinstance(value, str):
        if not types or "string" in types:
            return _date(engine, schema, value, path, changes)
        return _text(schema, types, value, path, changes, is_read=is_read)
    if type(value) is int and types and _TEXT_ONLY.issuperset(types):
        return changes.convert(path, "number_as_text", value, str(value))
    return value


def fold_whole(schema: dict[str, Any], value: Any, path: Path, changes: Changes) -> Any:
    """Fold `2.0` to `2` where only integers are wanted; the one fold that valid values get, too."""
    types = types_of(schema)
    if not isinstance(value, float) or "integer" not in types or "number" in types:
        return value
    number = integral(value)
    if number is not None:
        return changes.convert(path, "integral_float", value, number)
    if value.is_integer():
        changes.refuse(path, "inexact", f"{value!r} is too large to be exact; send the integer in plain digits")
    return value


def _text(
    schema: dict[str, Any], types: tuple[str, ...], value: str, path: Path, changes: Changes, *, is_read: bool
) -> Any:
    """Read a text as one of the types that are wanted instead of a text."""
    meant = text_as(value, types, MAX_DEPTH - len(path))
    if len(meant) == 1:
        made = meant[0]
        rule = "boolean" if isinstance(made, bool) else "number" if isinstance(made, int | float) else "json_text"
        return changes.convert(path, rule, value, made)
    items = schema.get("items")
    if is_read and not meant and "array" in types and isinstance(items, dict) and types_of(items) == ("string",):
        words = comma_list(value)
        if words is not None:
            return changes.convert(path, "comma_list", value, words)
    return value


def _date(engine: Engine, schema: dict[str, Any], value: str, path: Path, changes: Changes) -> Any:
    form = schema.get("format")
    if not isinstance(form, str) or form not in DATE_FORMATS or engine.has_format(form, value):
        return value
    found = [text for text in readings(value, form) if engine.has_format(form, text)]
    if len(found) == 1:
        return changes.convert(path, "date", value, found[0])
    if found:
        changes.refuse(
            path,
            "ambiguous_date",
            f"{value!r} can mean {' or '.join(found)}; ask which one is meant, and send that form",
        )
    return value
