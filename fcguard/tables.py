"""What the generated tables of rules and constraints share: options as a user writes them, summaries, error types with next actions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fcguard.model.failure import TAXONOMY, ErrorType

__all__ = ["codes_with_actions", "render_codes", "summary_of", "written_options"]


def written_options(thing: Callable[..., Any]) -> str:
    """Answer the parameters of a function or class as a user writes them, with defaults; long and nameless defaults are `...`."""
    shown: list[str] = []
    for parameter in inspect.signature(thing).parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not any(item.startswith("*") for item in shown):
            shown.append("*")
        star = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else ""
        default = "" if parameter.default is inspect.Parameter.empty else f"={_default(parameter.default)}"
        shown.append(f"{star}{parameter.name}{default}")
    return ", ".join(shown)


def _default(value: Any) -> str:
    if isinstance(value, ErrorType):
        return repr(str(value))
    return repr(value) if isinstance(value, str | int | float | tuple | None) and len(repr(value)) <= 40 else "..."


def summary_of(thing: Any) -> str:
    """Answer the first sentence of a docstring."""
    return (inspect.getdoc(thing) or "").partition("\n\n")[0].replace("\n", " ")


def codes_with_actions(codes: Iterable[ErrorType | tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Answer error types with the next action that the taxonomy gives them, and pairs as they are."""
    for code in codes:
        if isinstance(code, ErrorType):
            yield str(code), str(TAXONOMY[code][1])
        else:
            yield str(code[0]), str(code[1])


def render_codes(codes: Iterable[tuple[str, str]]) -> str:
    """Answer the cell of a table for error types and next actions."""
    return "<br>".join(f"{f'`{code}`' if code.isupper() else code} → {action}" for code, action in codes)
