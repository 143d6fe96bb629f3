"""The rule that lets a parameter hold listed values only, from code or from the task's context."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from fcguard.errors import ConfigurationError
from fcguard.rules.base import BaseRule
from fcguard.rules.parameters import ParameterRule, refusal
from fcguard.rules.protocols import RuleCall, Verdict
from fcguard.rules.selectors import Selector, selectors

__all__ = ["allowed_values"]

_SHOWN = 20


def allowed_values(
    parameter: str,
    values: Iterable[Any] | None = None,
    *,
    from_context: str | Callable[[Any], Iterable[Any]] | None = None,
) -> BaseRule:
    """Let a parameter hold only values that the host lists (`PARAM_INVALID`).

    Values compare by type and value: `1`, `1.0`, `True` and `"1"` are four values. A list that the context does not hold
    allows nothing.

    Args:
        parameter: dotted path; `ids[*]` judges every item.
        values: the list, if it is known when the rule is built.
        from_context: dotted path in the task's context (`environment.data_sources`, `state.previous_outputs.order_ids`),
            or `(context) -> values`.

    Raises:
        ConfigurationError: neither or both lists are given, or `values` is one text.
    """
    if (values is None) == (from_context is None):
        raise ConfigurationError("allowed_values: give either values=[...] or from_context='environment.data_sources'")
    if isinstance(values, str):
        raise ConfigurationError(f"allowed_values: values={values!r} is one text; write [{values!r}]")
    listed = None if values is None else tuple(values)
    source: Any = from_context
    if isinstance(from_context, str):
        source = tuple(from_context.split("."))
        if not all(source):
            raise ConfigurationError(f"allowed_values: from_context {from_context!r} is not a dotted path")
    elif from_context is not None and not callable(from_context):
        raise ConfigurationError(f"allowed_values: from_context {from_context!r} is neither a path nor a callable")
    return _AllowedValues(selectors(parameter, "allowed_values"), listed, source)


@dataclass(frozen=True, slots=True, repr=False)
class _AllowedValues(ParameterRule):
    name: ClassVar[str] = "allowed_values"
    selectors: tuple[Selector, ...]
    values: tuple[Any, ...] | None
    from_context: tuple[str, ...] | Callable[[Any], Iterable[Any]] | None

    def examine(self, path: str, value: Any, call: RuleCall) -> Verdict:
        allowed = self.values if self.values is not None else self._from_context(call)
        if any(type(one) is type(value) and one == value for one in allowed):
            return None
        shown = ", ".join(map(repr, allowed[:_SHOWN])) + (
            f" and {len(allowed) - _SHOWN} more" if len(allowed) > _SHOWN else ""
        )
        return refusal(self.name, path, f"is not an allowed value; allowed: {shown or 'none'}")

    def _from_context(self, call: RuleCall) -> tuple[Any, ...]:
        source = self.from_context
        found: Any = call.context
        if callable(source):
            found = source(found)
        else:
            for key in source or ():
                found = found.get(key) if isinstance(found, Mapping) else getattr(found, key, None)
        if found is None:
            return ()
        return tuple(found) if isinstance(found, list | tuple | set | frozenset) else (found,)
