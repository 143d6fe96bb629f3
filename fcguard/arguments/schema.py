"""The parameters of a tool as one object: compiled once, then asked to normalize and check arguments."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import jsonschema_rs as rs

from fcguard.arguments.compiled import Compiled, Options, compile_schema
from fcguard.arguments.engine import FormatCheck
from fcguard.arguments.fold import Naming
from fcguard.arguments.normalizer import normalize_long
from fcguard.arguments.numerals import MAX_EXACT
from fcguard.arguments.parse import MAX_SIZE, Unreadable, parse_simple_object, too_deep
from fcguard.arguments.plain import NotPlain, copy_plain, to_plain
from fcguard.arguments.records import Finding, Fold, Normalized, clean, shortened
from fcguard.arguments.refusal import failed
from fcguard.errors import SchemaError
from fcguard.model.failure import Effect, Problem
from fcguard.model.frozen import FrozenDict

__all__ = ["ArgumentSchema", "normalize"]

_MAX_DEPTH: Final = 200
"""Deepest nesting of a schema; the validators recurse."""
_EAGER: Final = ('"$', '"pattern')
"""Marks in the text of a schema that it may hold references, a dialect or patterns, which are checked at once."""


class ArgumentSchema:
    """The parameters of one tool.

    Made by `compile`, which is cheap: the validators are built at the first use. Safe to use from several threads.

    Attributes:
        options: what was declared beside the schema.
    """

    __slots__ = ("_compiled", "_declared", "_defaulted", "_defaults", "_is_valid", "_text", "options")

    def __init__(self, text: str, options: Options) -> None:
        self._text, self.options = text, options
        self._compiled: Compiled | None = None
        self._is_valid: Callable[[Any], bool] | None = None
        self._declared: frozenset[str] | None = None
        self._defaults: tuple[tuple[str, Any, Fold], ...] = ()
        self._defaulted: frozenset[str] = frozenset()

    @classmethod
    def compile(
        cls,
        schema: Mapping[str, Any],
        *,
        closed: bool = False,
        aliases: Mapping[str, Sequence[str]] | None = None,
        normalizers: Mapping[str, Callable[[Any], Any]] | None = None,
        hidden: Collection[str] = (),
        secret: Collection[str] = (),
        formats: Mapping[str, FormatCheck] | None = None,
    ) -> ArgumentSchema:
        """Compile the JSON Schema of a tool's parameters.

        Args:
            schema: JSON Schema of an object: draft 4, 6, 7, 2019-09 or 2020-12 as `$schema` says, else 2020-12. Taken
                as it is now; later changes to it have no effect.
            closed: refuse parameters that are not declared, whatever the schema says; for tools made from signatures.
            aliases: parameter -> other names for it.
            normalizers: parameter -> callable that gets what was sent and answers what is meant; called before folding.
            hidden: parameters that the host fills; a model that sends one is refused.
            secret: names whose values no message repeats, beside `writeOnly`, `format: password` and telling names.
            formats: own format checks, `name -> (text) -> bool`; a check that raises refuses the text.

        Returns:
            The compiled schema. Faults that can be lived with are in `findings`.

        Raises:
            SchemaError: the schema is not valid, not one of an object, or refers to something outside itself; the
                message says how to mend it.
        """
        if not isinstance(schema, Mapping):
            raise SchemaError(f"the parameters must be a JSON Schema object, not {type(schema).__name__}")
        try:
            plain = schema if type(schema) is dict else dict(schema)
            text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
            text.encode()
            is_standard = '"$schema"' not in text and rs.meta.is_valid(plain)
        except (TypeError, ValueError, RecursionError) as error:
            what = f"({type(error).__name__}: {shortened(str(error))})"
            raise SchemaError(
                f"the schema is not plain JSON {what}; use dicts, lists, texts, numbers, flags and None"
            ) from None
        if too_deep(text, _MAX_DEPTH) is not None:
            raise SchemaError(f"the schema is nested deeper than {_MAX_DEPTH} levels; move parts of it to '$defs'")
        naming = Naming(dict(aliases or {}), dict(normalizers or {}))
        made = cls(text, Options(closed, naming, frozenset(hidden), frozenset(secret), formats))
        if not is_standard or plain.get("type", "object") != "object" or any(mark in text for mark in _EAGER):
            made._ready()
        return made

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Faults of the schema that do not stop its use; builds the validators."""
        compiled = self._ready()
        return (*compiled.findings, *compiled.defaults.findings())

    @property
    def parameters(self) -> frozenset[str]:
        """Names of the parameters a model may send."""
        return self._ready().declared

    @property
    def json_schema(self) -> dict[str, Any]:
        """A copy of the schema as it was given."""
        return json.loads(self._text)  # type: ignore[no-any-return]

    def normalize(self, raw: str | bytes | Mapping[str, Any] | None, *, effect: Effect = "write") -> Normalized:
        """Read, fold and validate the arguments of one call.

        Args:
            raw: exact text (or UTF-8 bytes) from the wire, an object where the wire had one, or None for no arguments.
                Never changed, and never part of the answer.
            effect: what the tool does to the world; some repairs are for `read` only.

        Returns:
            The arguments, every change made, and every problem left. Never raises, whatever `raw` is.
        """
        kind = type(raw)
        parsed: dict[str, Any] | None = None
        quick: Normalized | dict[str, Any] | None = None
        if kind is dict or kind is FrozenDict:
            quick = self._quick(raw, None)  # type: ignore[arg-type]
        elif kind is str:
            parsed = parse_simple_object(raw)  # type: ignore[arg-type]
            quick = None if parsed is None else self._quick(parsed, raw)  # type: ignore[arg-type]
        if type(quick) is Normalized:
            return quick
        plain: Any = quick or parsed
        return normalize_long(self._ready(), raw, is_read=effect == "read", parsed=plain)

    def check(self, value: Mapping[str, Any]) -> tuple[Problem, ...]:
        """Validate arguments as they are, without folding.

        Args:
            value: the arguments, plain JSON values or Python values with a JSON form.

        Returns:
            All problems; none means valid. Never raises.
        """
        compiled = self._ready()
        try:
            plain, _ = to_plain(value)
        except Unreadable as fault:
            return (Problem("", fault.rule, fault.reason),)
        if compiled.engine.is_valid(plain):
            return ()
        return failed(plain, (), compiled.speaker.problems(compiled.locator.faults(plain), plain), None).problems

    def is_valid(self, value: Mapping[str, Any]) -> bool:
        """Answer whether arguments are valid as they are, without folding."""
        return not self.check(value)

    def _ready(self) -> Compiled:
        compiled = self._compiled
        if compiled is None:
            compiled = compile_schema(self._text, self.options)
            flat = compiled.defaults.flat
            if flat is not None and not compiled.naming.normalizers:
                self._defaults, self._defaulted = flat, frozenset(name for name, _, _ in flat)
                self._declared = None if compiled.closed else compiled.declared
                self._is_valid = compiled.engine.validator.is_valid
            self._compiled = compiled
        return compiled

    def _quick(self, raw: dict[str, Any], text: str | None) -> Normalized | dict[str, Any] | None:
        """Answer for a plain object that is valid as it stands and holds nothing to fold.

        Returns:
            The answer; a plain copy that has to go the long way; None if it is not known to be plain.
        """
        is_valid = self._is_valid or self._first_use()
        value = dict(raw)
        size = 0
        try:
            for key, item in raw.items():
                kind = type(item)
                if type(key) is not str or not key.isascii():
                    return None
                if kind is str:
                    size += len(item)
                elif kind is int:
                    if not -MAX_EXACT < item < MAX_EXACT:
                        return None
                elif kind is dict or kind is list or kind is FrozenDict:
                    value[key] = copy_plain(item)
                elif kind is float:
                    if not -MAX_EXACT < item < MAX_EXACT or item.is_integer():
                        return None
                elif kind is not bool and item is not None:
                    return None
            declared = self._declared
            if size > MAX_SIZE // 4:
                return None
            if (declared is not None and not declared.issuperset(value)) or not is_valid(value):
                return value
        except (NotPlain, ValueError):
            return None
        return self._filled(value, dict(value) if text is None else text)

    def _filled(self, value: dict[str, Any], source: Any) -> Normalized | dict[str, Any]:
        if self._defaulted.issubset(value):
            return clean(value, (), source)
        missing = [row for row in self._defaults if row[0] not in value]
        filled = {**value, **{name: default for name, default, _ in missing}}
        if missing and not self._ready().engine.is_valid(filled):
            return value
        return clean(filled, tuple([fold for _, _, fold in missing]), source)

    def _first_use(self) -> Callable[[Any], bool]:
        self._ready()
        return self._is_valid or _never


def _never(_: Any) -> bool:
    """Send every call the long way: the schema has normalizers, or defaults that are not flat."""
    return False


def normalize(schema: Mapping[str, Any], raw: Any, *, effect: Effect = "write", **options: Any) -> Normalized:
    """Normalize arguments for a schema that is used once; compile an `ArgumentSchema` to use it again.

    Args:
        schema: as for `ArgumentSchema.compile`.
        raw: as for `ArgumentSchema.normalize`.
        effect: as for `ArgumentSchema.normalize`.
        options: those of `ArgumentSchema.compile`.

    Returns:
        The arguments, every change made, and every problem left.

    Raises:
        SchemaError: the schema cannot be used.
    """
    return ArgumentSchema.compile(schema, **options).normalize(raw, effect=effect)
