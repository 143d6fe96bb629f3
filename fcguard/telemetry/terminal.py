"""Print span trees in the terminal, in colours where rich is installed (extra `cli`)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import IO, Any

from fcguard.telemetry.tree import Node, SpanRow, describe, forest, render_tree

__all__ = ["print_spans"]


def print_spans(spans: Sequence[SpanRow], file: IO[str] | None = None) -> None:
    """Print spans as trees.

    Args:
        spans: in any order, of any number of traces.
        file: where to; None: stderr, never stdout, which may belong to a protocol.
    """
    target = sys.stderr if file is None else file
    rich = _rich()
    if rich is None or not target.isatty():
        print(render_tree(spans), file=target, flush=True)
        return
    console, trees = rich.console.Console(file=target, highlight=False), _rich_trees(rich, forest(spans))
    for tree in trees:
        console.print(tree)


def _rich() -> Any:
    try:
        import rich.console
        import rich.text
        import rich.tree
    except ImportError:
        return None
    return rich


def _rich_trees(rich: Any, roots: Iterable[Node]) -> list[Any]:
    trees = []
    for root in roots:
        tree = rich.tree.Tree(_label(rich, root.span), guide_style="dim")
        stack = [(root, tree)]
        while stack:
            node, branch = stack.pop()
            stack.extend((child, branch.add(_label(rich, child.span))) for child in node.children)
        trees.append(tree)
    return trees


def _label(rich: Any, span: SpanRow) -> Any:
    name, _, rest = describe(span).partition("  ")
    label = rich.text.Text(name, style="bold red" if span.status == "ERROR" else "bold")
    return label.append(f"  {rest}", style="default")
