"""Reads a page of the documentation by its sections, to ask what each one shows."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

__all__ = ["Section", "names_used", "python_blocks", "sections_of"]

_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Section:
    """A heading with what stands below it, up to the next heading of any depth.

    Attributes:
        heading: its text.
        names: the names in backticks at its start (`a`, `b`: words).
        blocks: its Python blocks.
    """

    heading: str
    names: tuple[str, ...]
    blocks: tuple[str, ...]


def python_blocks(text: str) -> list[str]:
    """Answer the Python blocks of a page."""
    return _BLOCK.findall(text)


def sections_of(text: str) -> list[Section]:
    """Answer the sections of a page in their order."""
    blocks = python_blocks(text)
    hollow = _BLOCK.sub("\x00\n", text)  # a comment in code is no heading
    found: list[Section] = []
    parts = re.split(r"^#{1,6} +(.+?)\s*$", hollow, flags=re.MULTILINE)
    at = parts[0].count("\x00")
    for heading, below in zip(parts[1::2], parts[2::2], strict=True):
        count = below.count("\x00")
        names = re.match(r"(?:`(\w+)`(?:, )?)*", heading)
        listed = tuple(re.findall(r"`(\w+)`", names[0] if names else ""))
        found.append(Section(heading, listed, tuple(blocks[at : at + count])))
        at += count
    return found


def names_used(code: str) -> frozenset[str]:
    """Answer the names that a block uses beyond importing them."""
    return frozenset(node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name))
