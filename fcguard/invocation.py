"""How a tool's function is entered: what it receives, how a call that does not fit is told, how its items are read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from inspect import isfunction, ismethod, signature
from itertools import islice
from types import GeneratorType
from typing import Any, Final

from fcguard.model.attempt import NotEntered
from fcguard.model.call import Call
from fcguard.model.call_info import CallInfo
from fcguard.model.failure import ErrorType
from fcguard.model.frozen import thaw

__all__ = ["consume", "cut", "enter", "limit_of", "prepare_arguments"]

_MOST_ITEMS: Final = 1000
"""Items read from a generator that a function without `max_items` turned out to return."""


def prepare_arguments(call: Call, info: CallInfo) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Build what the function receives: a deep copy of the frozen arguments, converted where annotations promise more.

    Raises:
        NotEntered: they could not be converted.
    """
    prepared = call.prepared
    keywords = thaw(call.arguments)
    args: tuple[Any, ...] = ()
    if prepared.convert is not None or prepared.positional:
        try:
            if prepared.convert is not None:
                keywords = prepared.convert(keywords)
            args = _take_positional(prepared.tool.fn, prepared.positional, keywords)
        except Exception as error:
            raise NotEntered(
                ErrorType.PARAM_INVALID,
                f"The arguments could not be turned into what {prepared.tool.name} takes ({type(error).__name__}).",
            ) from error
    if prepared.info_parameter is not None:
        keywords[prepared.info_parameter] = info
    key_parameter = prepared.tool.idempotency_key
    if type(key_parameter) is str:
        keywords[key_parameter] = call.idempotency_key
    return ((call.receiver, *args) if prepared.takes_receiver else args), keywords


def _take_positional(fn: Callable[..., Any], names: tuple[str, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
    """Take the arguments that only go by position out of the others; what is left out in between has its default."""
    args: list[Any] = []
    missing: list[str] = []
    for name in names:
        if name not in keywords:
            missing.append(name)
            continue
        args += [_default(fn, one) for one in missing]
        args.append(keywords.pop(name))
        missing.clear()
    return tuple(args)


def _default(fn: Callable[..., Any], name: str) -> Any:
    parameter = signature(fn).parameters[name]
    if parameter.default is parameter.empty:
        raise TypeError(f"{name!r} is missing")
    return parameter.default


def enter(fn: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Call the function; arguments that do not fit its signature are told from a `TypeError` of its own."""
    try:
        return fn(*args, **keywords)
    except TypeError as error:
        trace = error.__traceback__
        if trace is not None and trace.tb_next is None and _is_python(fn):  # a function that was entered has a frame
            raise NotEntered(ErrorType.PARAM_INVALID, f"The function does not take these arguments: {error}") from error
        raise


def _is_python(fn: Any) -> bool:
    while isinstance(fn, partial):
        fn = fn.func
    return isfunction(fn) or ismethod(fn) or isfunction(type(fn).__call__)


def consume(call: Call, value: Any) -> Any:
    """Read a generator up to the tool's limit; the rest is dropped, and said to be."""
    if type(value) is not GeneratorType:
        return value
    items = list(islice(value, limit_of(call) + 1))
    with suppress(Exception):  # what was read is the answer; closing adds nothing to it
        value.close()
    return cut(call, items)


def limit_of(call: Call) -> int:
    """Answer how many items are read from a generator."""
    return call.prepared.tool.max_items or _MOST_ITEMS


def cut(call: Call, items: list[Any]) -> list[Any]:
    """Cut what was read to the limit, and flag it if that leaves something out."""
    limit = limit_of(call)
    if len(items) > limit:
        call.flag("truncated")
        return items[:limit]
    return items
