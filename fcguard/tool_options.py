"""What each option of a tool may be: one table, for tools made of functions and for those that are registered."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from fcguard.errors import ConfigurationError
from fcguard.model.tool import Retry, Tool
from fcguard.results.contract import compile_contract

__all__ = ["as_tuples", "check_options", "frozen_tool"]

_TUPLES: Final = ("business_key", "fallback", "rules", "constraints", "classifiers", "redact")
_MAPPINGS: Final = ("bound", "aliases", "normalize", "recovery")


def as_tuples(options: Mapping[str, Any]) -> dict[str, Any]:
    """Answer options with lists as tuples and mappings copied, so that a tool cannot change after it was checked.

    Raises:
        ConfigurationError: a text where a sequence is due, or no sequence or mapping at all.
    """
    out = dict(options)
    for key in _TUPLES:
        value = out.get(key)
        if isinstance(value, str):
            raise ConfigurationError(f"{key}={value!r} is one text; write a tuple: {key}=({value!r},)")
        if value is not None:
            out[key] = _built(tuple, key, value, "a sequence")
        elif key in out and key != "business_key":
            out[key] = ()
    for key in _MAPPINGS:
        if key in out:
            out[key] = _built(dict, key, out[key] if out[key] is not None else {}, "a mapping")
    if "recovery" in out:
        out["recovery"] = {str(row): _plan(row, plan) for row, plan in out["recovery"].items()}
    tags = out.get("tags")
    if "tags" in out:
        wanted = [tags] if isinstance(tags, str) else () if tags is None else tags
        out["tags"] = _built(frozenset, "tags", wanted, "a set of texts")
    return out


def _plan(row: Any, plan: Any) -> tuple[Any, ...]:
    if isinstance(plan, str):
        raise ConfigurationError(f"recovery[{row!r}]={plan!r} is one text; write a tuple: ({plan!r},)")
    if isinstance(plan, Mapping):
        raise ConfigurationError(f"recovery[{row!r}]={plan!r}: a tool has one effect; give its plan alone, ('stop',)")
    return tuple(_built(tuple, f"recovery[{row!r}]", plan, "a sequence of actions"))


def _built(kind: Callable[[Any], Any], key: str, value: Any, what: str) -> Any:
    try:
        return kind(value)
    except (TypeError, ValueError):
        raise ConfigurationError(f"{key}={value!r} must be {what}") from None


def frozen_tool(tool: Tool) -> Tool:
    """Answer a tool that was built by hand, with its options as those of a decorated function are kept.

    Raises:
        ConfigurationError: as `as_tuples`.
    """
    names = (*_TUPLES, *_MAPPINGS, "tags")
    return replace(tool, **as_tuples({name: getattr(tool, name) for name in names}))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_text_or_none(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_callable_or_none(value: Any) -> bool:
    return value is None or callable(value)


def _is_approval(value: Any) -> bool:
    if isinstance(value, str):
        return value in ("required", "never")
    return _is_callable_or_none(value) and not isinstance(value, type)


def _is_amount(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= sys.float_info.max


def _is_wait(value: Any) -> bool:
    return value is None or (_is_amount(value) and value <= threading.TIMEOUT_MAX)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _are_texts(value: Any) -> bool:
    return all(map(_is_text, value))


def _are_functions(value: Sequence[Any]) -> bool:
    return all(callable(item) for item in value)


def _is_retry(value: Any) -> bool:
    if not isinstance(value, Retry):
        return value is None or _is_count(value)
    return (
        _is_count(value.attempts)
        and _is_callable_or_none(value.wait)
        and _is_callable_or_none(value.stop)
        and value.max_wait is not None
        and _is_wait(value.max_wait)
    )


_SECONDS: Final = f"must be seconds, zero or more, at most {threading.TIMEOUT_MAX:.0f}; None for no limit"
_CHECKS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "description": (_is_text_or_none, "must be a text"),
    "title": (_is_text_or_none, "must be a text"),
    "version": (_is_text, "must be a text, e.g. '1'"),
    "tags": (_are_texts, "must be texts"),
    "timeout": (_is_wait, _SECONDS),
    "settle": (_is_wait, _SECONDS),
    "retry": (
        _is_retry,
        "must be a number of attempts above 0, or a Retry: wait and stop callable (wait_fixed(3), not 3), max_wait in seconds",
    ),
    "business_key": (lambda value: value is None or (value != () and _are_texts(value)), "must name parameters"),
    "idempotency_key": (lambda value: _is_flag(value) or _is_text(value), "must be True, or the name of a parameter"),
    "idempotency_lifetime": (
        lambda value: value is None or (_is_amount(value) and value > 0),
        "must be seconds above 0; None if the server remembers keys for ever",
    ),
    "conditional": (_is_flag, "must be True or False"),
    "classifiers": (_are_functions, "must be callables (exception_or_result, call) -> ErrorType | None"),
    "failed_when": (_is_callable_or_none, "must be a callable (result) -> falsy | True | str | Violation"),
    "approval": (
        _is_approval,
        "is no approval; use 'required', 'never' or a rule (call) -> truthy",
    ),
    "bound": (
        lambda value: _are_texts(value) and _are_texts(value.values()),
        "must map parameters to names of the task's identity",
    ),
    "aliases": (
        lambda value: (
            _are_texts(value)
            and all(
                not isinstance(names, str) and isinstance(names, Sequence) and _are_texts(names)
                for names in value.values()
            )
        ),
        "must map parameters to lists of other names, {'order_id': ['id', 'orderNo']}",
    ),
    "normalize": (
        lambda value: _are_texts(value) and _are_functions(tuple(value.values())),
        "must map parameters to callables (value) -> value",
    ),
    "redact": (_are_texts, "must be names"),
    "max_result_chars": (_is_count, "must be a whole number above 0"),
    "max_items": (lambda value: value is None or _is_count(value), "must be a whole number above 0"),
    "inline": (_is_flag, "must be True or False"),
    "ready": (_is_callable_or_none, "must be a callable (call) -> bool"),
    "cost": (_is_amount, "must be a finite number, zero or more"),
    "polling": (_is_flag, "must be True or False"),
    "untrusted": (_is_flag, "must be True or False"),
}
"""Option -> what it may be, and how that is said. The others (name, effect, confirm, ...) are checked with what they mean."""


def check_options(tool: Tool) -> None:
    """Refuse what an option cannot be.

    Raises:
        ConfigurationError: an option has a value that cannot work.
        SchemaError: `output` is no usable JSON Schema.
    """
    for option, (is_fine, what) in _CHECKS.items():
        value = getattr(tool, option)
        if not is_fine(value):
            raise ConfigurationError(f"tool {tool.name!r}: {option}={value!r} {what}")
    if tool.output is not None:
        compile_contract(tool.output, f"tool {tool.name!r}: output")
    has_other_licence = tool.effect == "idempotent_write" or tool.idempotency_key or tool.conditional
    if tool.settle is not None and not tool.is_read and tool.confirm is None and not has_other_licence:
        raise ConfigurationError(
            f"tool {tool.name!r}: settle= does nothing without confirm=, which reads the state after it; give both, or neither"
        )
    _check_filled(tool)


def _check_filled(tool: Tool) -> None:
    """Refuse to fill a parameter that the function does not take."""
    key = tool.idempotency_key
    filled = [("bound", name) for name in tool.bound]
    filled += [("idempotency_key", key)] if isinstance(key, str) else []
    for option, parameter in filled:
        if not _accepts(tool.fn, parameter):
            raise ConfigurationError(
                f"tool {tool.name!r}: {option} names {parameter!r}, which its function does not take"
            )
    if isinstance(key, str) and key in tool.bound:
        raise ConfigurationError(f"tool {tool.name!r}: {key!r} is both bound and the idempotency_key; keep one")


def _accepts(fn: Callable[..., Any], name: str) -> bool:
    """Answer whether a function takes an argument of this name; a callable without a signature takes any."""
    try:
        parameters = inspect.signature(fn).parameters
    except (TypeError, ValueError):
        return True
    if name in parameters:
        return parameters[name].kind is not inspect.Parameter.VAR_POSITIONAL
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
