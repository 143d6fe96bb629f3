"""The reference: `jsonschema` with the patterns of ECMA-262 and strict formats, which the fast validator must agree with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal, localcontext
from typing import Any

import jsonschema
import jsonschema_rs as rs
from jsonschema import FormatChecker, ValidationError, validators

from fcguard.arguments.engine import DRAFTS

_CLASSES = {
    "http://json-schema.org/draft-04/schema": jsonschema.Draft4Validator,
    "http://json-schema.org/draft-06/schema": jsonschema.Draft6Validator,
    "http://json-schema.org/draft-07/schema": jsonschema.Draft7Validator,
    "https://json-schema.org/draft/2019-09/schema": jsonschema.Draft201909Validator,
    "https://json-schema.org/draft/2020-12/schema": jsonschema.Draft202012Validator,
}
DIALECTS = tuple(_CLASSES)

FORMATS = (
    "date date-time time duration email idn-email hostname idn-hostname ipv4 ipv6 uri uri-reference iri iri-reference uuid "
    "uri-template json-pointer relative-json-pointer regex"
).split()


def _holds(keyword: str, argument: str, text: str, kind: Any = rs.Draft202012Validator) -> bool:
    """Formats and patterns are what `jsonschema` is weak at: it checks few formats, and patterns with Python's `re`."""
    return kind({keyword: argument}, validate_formats=True).is_valid(text)


def _pattern(validator: Any, pattern: str, instance: Any, schema: Mapping[str, Any]):
    if isinstance(instance, str) and not _holds("pattern", pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Mapping[str, Any], instance: Any, schema: Mapping[str, Any]):
    if isinstance(instance, dict):
        for pattern, sub in patterns.items():
            for key, item in instance.items():
                if _holds("pattern", pattern, key):
                    yield from validator.descend(item, sub, path=key, schema_path=pattern)


def _additional_properties(validator: Any, additional: Any, instance: Any, schema: Mapping[str, Any]):
    if not isinstance(instance, dict):
        return
    for key, item in instance.items():
        if key in schema.get("properties", {}):
            continue
        if any(_holds("pattern", pattern, key) for pattern in schema.get("patternProperties", {})):
            continue
        if additional is False:
            yield ValidationError(f"{key!r} is not declared")
        elif isinstance(additional, dict):
            yield from validator.descend(item, additional, path=key)


def _multiple_of(validator: Any, divisor: Any, instance: Any, schema: Mapping[str, Any]):
    """`jsonschema` divides floats, so that 19.99 is no multiple of 0.01; here the numbers are what they are written as."""
    if isinstance(instance, int | float) and not isinstance(instance, bool):
        with localcontext() as context:
            context.prec = 1000
            if Decimal(repr(instance)) % Decimal(repr(divisor)):
                yield ValidationError(f"{instance!r} is not a multiple of {divisor!r}")


def reference(schema: Any, dialect: str) -> Any:
    """Build the reference validator of one schema."""
    base = _CLASSES[dialect]
    extended = validators.extend(
        base,
        {
            "pattern": _pattern,
            "patternProperties": _pattern_properties,
            "additionalProperties": _additional_properties,
            "multipleOf": _multiple_of,
            "dependencies": jsonschema.Draft7Validator.VALIDATORS["dependencies"],
        },
    )
    checker = FormatChecker(formats=())
    checker.checkers = {}
    kind = DRAFTS[dialect][0]
    for name in FORMATS:
        checker.checkers[name] = (
            lambda text, name=name: not isinstance(text, str) or _holds("format", name, text, kind),
            (),
        )
    return extended(json.loads(json.dumps(schema)), format_checker=checker)
