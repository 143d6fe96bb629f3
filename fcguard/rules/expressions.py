"""The rule that lets small expressions through: numbers, texts, listed names and functions, and operators."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from fcguard.errors import ConfigurationError
from fcguard.rules.base import BaseRule
from fcguard.rules.parameters import ParameterRule, refusal
from fcguard.rules.protocols import RuleCall, Verdict
from fcguard.rules.selectors import Selector, selectors

__all__ = ["expression"]

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_OPERATORS: Final = (
    *(
        ast.BoolOp,
        ast.And,
        ast.Or,
        ast.UnaryOp,
        ast.Not,
        ast.UAdd,
        ast.USub,
        ast.Compare,
        ast.Eq,
        ast.NotEq,
        ast.Lt,
        ast.LtE,
    ),
    *(
        ast.Gt,
        ast.GtE,
        ast.In,
        ast.NotIn,
        ast.Is,
        ast.IsNot,
        ast.BinOp,
        ast.Add,
        ast.Sub,
        ast.Mult,
        ast.Div,
        ast.FloorDiv,
        ast.Mod,
    ),
    *(ast.IfExp, ast.Load, ast.Expression, ast.List, ast.Tuple),
)
_LARGEST: Final = 10**15
_LONGEST_TEXT: Final = 1000


def expression(
    *parameters: str,
    names: Iterable[str] = (),
    functions: Iterable[str] = (),
    power: bool = False,
    max_length: int = 500,
    max_depth: int = 20,
) -> BaseRule:
    """Let Python expressions of a small language through (`PARAM_INVALID`).

    Allowed are numbers, texts, True, False, None, arithmetic, comparisons, `and`, `or`, `not`, `x if c else y`, lists and
    tuples, and the listed names and functions. Refused is everything else: attributes, subscripts, lambdas, comprehensions,
    f-strings, assignments, names with underscores in front, backslashes, numbers above 10**15, text times number and text
    formatting. Evaluate it with nothing but the listed names in reach.

    Args:
        parameters: dotted paths; default: `expression`.
        names: names that may stand for values.
        functions: names that may be called, with positional arguments.
        power: whether `**` is allowed, with a plain number of at most 10 on the right.
        max_length: longest text in characters.
        max_depth: deepest nesting.

    Raises:
        ConfigurationError: a name is none, or a limit is below 1.
    """
    known = (
        frozenset((names,) if isinstance(names, str) else names),
        frozenset((functions,) if isinstance(functions, str) else functions),
    )
    for name in known[0] | known[1]:
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            raise ConfigurationError(
                f"expression: {name!r} is not a plain name of letters, digits and '_' that begins with a letter"
            )
    if max_length < 1 or max_depth < 1:
        raise ConfigurationError("expression: max_length and max_depth must be at least 1")
    return _Expression(selectors(parameters or ("expression",), "expression"), *known, power, max_length, max_depth)


class _Fault(ValueError):
    """What is in the way of an expression."""


@dataclass(frozen=True, slots=True, repr=False)
class _Expression(ParameterRule):
    name: ClassVar[str] = "expression"
    selectors: tuple[Selector, ...]
    names: frozenset[str]
    functions: frozenset[str]
    power: bool
    max_length: int
    max_depth: int

    def examine(self, path: str, value: Any, call: RuleCall) -> Verdict:
        if not isinstance(value, str):
            return refusal(self.name, path, "must be one expression, a text")
        try:
            self._check(_parse(value, self.max_length), 0)
        except _Fault as fault:
            return refusal(self.name, path, str(fault))
        return None

    def _check(self, node: ast.AST, depth: int) -> None:
        if depth > self.max_depth * 2:  # an operator and its operand are two levels of the tree
            raise _Fault(f"is nested deeper than {self.max_depth} levels")
        match node:
            case ast.Constant():
                _check_constant(node.value)
            case ast.Name():
                if node.id not in self.names:
                    raise _Fault(f"uses the name {node.id[:40]!r}; allowed: {_listed(self.names)}")
            case ast.Call():
                self._check_call(node)
            case ast.BinOp(op=ast.Pow()):
                self._check_power(node)
            case ast.BinOp(op=ast.Mult() | ast.Mod()) if _holds_text(node.left) or _holds_text(node.right):
                raise _Fault("multiplies or formats a text or list; use numbers")
            case _ if not isinstance(node, _OPERATORS):
                raise _Fault(f"uses {type(node).__name__}; write arithmetic and comparisons over allowed names")
            case _:
                pass
        for child in ast.iter_child_nodes(node):
            is_known = (isinstance(node, ast.Call) and child is node.func) or isinstance(child, ast.Pow)
            if not is_known:
                self._check(child, depth + 1)

    def _check_call(self, node: ast.Call) -> None:
        if not isinstance(node.func, ast.Name) or node.func.id not in self.functions:
            raise _Fault(f"calls a function that is not on the list; allowed: {_listed(self.functions)}")
        if node.keywords:
            raise _Fault("gives a function named arguments; give them by position")

    def _check_power(self, node: ast.BinOp) -> None:
        exponent = node.right.value if isinstance(node.right, ast.Constant) else None
        if not self.power or isinstance(exponent, bool) or not isinstance(exponent, int | float) or exponent > 10:
            raise _Fault(
                "uses '**', which may make numbers without end"
                + ("; write a plain number of at most 10" if self.power else "")
            )
        if any(isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Pow) for inner in ast.walk(node.left)):
            raise _Fault("uses '**' on '**', which may make numbers without end")


def _parse(text: str, max_length: int) -> ast.AST:
    if len(text) > max_length or not text.strip():
        raise _Fault(f"must be an expression of 1 to {max_length} characters")
    if "\\" in text or not text.replace("\n", " ").replace("\t", " ").isprintable():
        raise _Fault("holds a backslash or control characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError, Warning):
        raise _Fault("is not one expression") from None


def _check_constant(value: Any) -> None:
    if isinstance(value, str):
        if len(value) > _LONGEST_TEXT:
            raise _Fault(f"holds a text longer than {_LONGEST_TEXT} characters")
    elif isinstance(value, int | float):
        if not abs(value) <= _LARGEST:
            raise _Fault("holds a number above 10**15")
    elif value is not None:
        raise _Fault(f"holds a value of the type {type(value).__name__}")


def _holds_text(node: ast.AST) -> bool:
    return any(
        isinstance(inner, ast.List | ast.Tuple) or (isinstance(inner, ast.Constant) and isinstance(inner.value, str))
        for inner in ast.walk(node)
    )


def _listed(names: frozenset[str]) -> str:
    return ", ".join(sorted(names)) or "none"
