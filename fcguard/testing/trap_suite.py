"""The tool-selection traps as a suite that can be run: six tools that answer from memory, without network."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from fcguard.evaluation.suites.traps import Language, trap_catalogue, trap_gold, trap_prompts
from fcguard.guard import Guard
from fcguard.model.tool import Tool
from fcguard.stores.memory import MemoryStore
from fcguard.testing.suite import Stage, Suite

__all__ = ["trap_suite"]

_DOCUMENTS: Final = (
    (
        {"sales", "销售", "q3", "region", "区域"},
        "Q3 sales by region, in million: East 41, North 38, South 45, West 36.",
    ),
    ({"vat", "增值税", "起征点"}, "VAT threshold, since 2023: 100,000 a month."),
)
_PAGES: Final = {"https://example.com/pricing": "Plans. Basic: 9 a month. Standard: 19 a month. Pro: 49 a month."}

_OPERATORS: Final[dict[type[ast.AST], Callable[..., Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


def trap_suite(language: Language = "en") -> Suite:
    """Make the suite of the eight tool-selection traps; the gold decides about each session."""
    return Suite(
        name=f"traps-{language}",
        prompts=trap_prompts(language),
        gold=trap_gold(language),
        catalogue=trap_catalogue(),
        stage=_stage,
        description=f"eight prompts that lure an agent to a wrong tool ({language})",
    )


@contextmanager
def _stage(task_id: str, trial: int, folder: Path) -> Iterator[Stage]:
    memory: dict[str, str] = {}
    answers: dict[str, Callable[..., Any]] = {
        "search": _search,
        "calculator": lambda expression: {"value": _compute(ast.parse(expression, mode="eval").body)},
        "code_executor": lambda code: {"exit_code": 0, "stdout": "done: 98 rows written, 4 duplicates dropped\n"},
        "memory_store": lambda key, value: {"stored": memory.setdefault(key, value) == value},
        "web_fetch": lambda url: {"url": url, "text": _PAGES.get(url, "404: there is no such page")},
        "safety_checker": lambda text: {"is_allowed": False, "reason": "asks for personal data of many people"},
    }
    with Guard(store=MemoryStore(), evidence_dir=folder) as guard:
        for (_, name), spec in trap_catalogue().tools.items():
            schema = dict(spec.schema or {})
            guard.register(
                Tool(
                    name=name,
                    parameters=schema,
                    fn=answers[name],
                    description=schema.get("description"),
                    effect=spec.effect or "write",
                )
            )
        yield Stage(guard)


def _search(query: str) -> dict[str, Any]:
    words = query.lower()
    return {"documents": [text for keys, text in _DOCUMENTS if any(key in words for key in keys)]}


def _compute(node: ast.AST) -> float:
    """Compute an arithmetic expression; anything else is an error of the caller."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return float(_OPERATORS[type(node.op)](_compute(node.left), _compute(node.right)))
    if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
        return float(_OPERATORS[type(node.op)](_compute(node.operand)))
    raise ValueError(f"{ast.unparse(node)!r} is not arithmetic")
