"""Cuts a shell text into plain commands with a real parser, and refuses everything that is more than that.

Two readings have to agree: the grammar's, of which only a few kinds of nodes are accepted, and a plain one of the letters,
by which every accepted word is free of anything that a shell would expand or act on.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

__all__ = ["PlainCommand", "ShellFault", "plain_commands"]

_HIDDEN: Final = frozenset({"Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"})
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_CONTINUED: Final = re.compile(r"(?<=[ \t])\\\n")
_WORD: Final = re.compile(r"(?:[A-Za-z0-9_./:=,@%+~^*?\[\]-]|(?<=\w)!$|(?<!^)#|\\[ -~]|[^\x00-\x7f])+")
_RAW: Final = re.compile(r"'[^']*'")
_STRING: Final = re.compile(r'"(?:[^"\\$`]|\\[ -~])*"')
_GLOB: Final = re.compile(r"(?<!\\)[*?\[]")
_REDIRECT: Final = re.compile(r"(?:[12]?>>?|&>>?|<)[ \t]*/dev/null|[12]?>&[12]")
_CONTAINERS: Final = frozenset({"program", "list", "pipeline", "negated_command", "redirected_statement"})
_OPERATORS: Final = frozenset({"&&", "||", "|", ";", "\n", "!"})
_WORDS: Final = {"word": _WORD, "number": _WORD, "raw_string": _RAW, "string": _STRING}
_NAMES: Final = {
    "command_substitution": "a command substitution",
    "process_substitution": "a process substitution",
    "simple_expansion": "a variable",
    "expansion": "a variable",
    "arithmetic_expansion": "arithmetic",
    "variable_assignment": "a variable set before the command",
    "file_redirect": "a redirection",
    "heredoc_redirect": "a here-document",
    "herestring_redirect": "a here-string",
    "subshell": "a subshell",
    "compound_statement": "a group of commands",
    "function_definition": "a function",
    "brace_expression": "a brace expansion",
    "ansi_c_string": "a $'...' text",
    "translated_string": 'a $"..." text',
    "comment": "a comment",
    "&": "a command in the background",
    "|&": "'|&'",
}


class ShellFault(ValueError):
    """A text that is more than plain commands; the message says what is in the way."""


@dataclass(frozen=True, slots=True)
class PlainCommand:
    """One command with its words as the shell would pass them, but for globs.

    Attributes:
        words: name and arguments, quotes and backslashes taken off.
        globs: positions of words that hold an unquoted glob.
    """

    words: tuple[str, ...]
    globs: frozenset[int]


@lru_cache(maxsize=1)
def _language() -> Language:
    return Language(tree_sitter_bash.language())


def plain_commands(text: str) -> list[PlainCommand]:
    """Answer the commands of a text that are joined by `&&`, `||`, `;`, `|` or newlines.

    Raises:
        ShellFault: it holds none, or anything else.
    """
    if _CONTROL.search(text):
        raise ShellFault("holds control characters")
    text = _CONTINUED.sub("  ", text)
    if any(unicodedata.category(letter) in _HIDDEN for letter in text if letter != " "):
        raise ShellFault("holds invisible characters or unusual spaces")
    source = text.encode()
    root = Parser(_language()).parse(source).root_node
    if root.has_error:
        raise ShellFault("is not understood; write plain commands joined by '&&', '||', ';' or '|'")
    pieces: list[tuple[int, int]] = []
    commands = list(_walk(root, source, pieces))
    if not commands:
        raise ShellFault("holds no command")
    _check_cover(source, pieces)
    return commands


def _walk(node: Node, source: bytes, pieces: list[tuple[int, int]]) -> Iterator[PlainCommand]:
    kind = node.type
    if kind in _CONTAINERS:
        for child in node.children:
            yield from _walk(child, source, pieces)
    elif kind == "command":
        yield _command(node, source, pieces)
    elif (kind in _OPERATORS and not node.is_named) or (
        kind == "file_redirect" and _REDIRECT.fullmatch(_text(node, source))
    ):
        pieces.append((node.start_byte, node.end_byte))
    else:
        raise ShellFault(f"holds {_NAMES.get(kind, kind.replace('_', ' ')[:30])}; write plain commands without it")


def _command(node: Node, source: bytes, pieces: list[tuple[int, int]]) -> PlainCommand:
    words: list[str] = []
    globs: set[int] = set()
    for child in node.children:
        part = child.children[0] if child.type == "command_name" and child.child_count == 1 else child
        word, has_glob = _word(part, source)
        if has_glob:
            globs.add(len(words))
        words.append(word)
        pieces.append((part.start_byte, part.end_byte))
    if not words or not words[0] or 0 in globs:
        raise ShellFault("names no plain command at its start")
    return PlainCommand(tuple(words), frozenset(globs))


def _word(node: Node, source: bytes) -> tuple[str, bool]:
    """Answer a word as the shell would pass it, and whether it holds an unquoted glob."""
    if node.type == "concatenation":
        parts = node.children
        if any(left.end_byte != right.start_byte for left, right in pairwise(parts)):
            raise ShellFault("holds a word that is not understood; quote it as a whole")
        decoded = [_word(part, source) for part in parts]
        return "".join(word for word, _ in decoded), any(has_glob for _, has_glob in decoded)
    text = _text(node, source)
    pattern = _WORDS.get(node.type)
    if pattern is None or pattern.fullmatch(text) is None:
        inner = next((child.type for child in node.children if child.type in _NAMES), node.type)
        raise ShellFault(
            f"holds {_NAMES.get(inner, 'a word with signs that a shell acts on')}; write it out, in single quotes where needed"
        )
    if node.type == "raw_string":
        return text[1:-1], False
    if node.type == "string":
        return re.sub(r'\\(["\\$`])', r"\1", text[1:-1]), False
    return re.sub(r"\\(.)", r"\1", text), _GLOB.search(text) is not None


def _check_cover(source: bytes, pieces: list[tuple[int, int]]) -> None:
    """Refuse a text of which the grammar left something out that is not blank."""
    end = 0
    for start, stop in sorted(pieces):
        if source[end:start].strip(b" \t\n"):
            raise ShellFault("holds something that is not understood; write plain commands")
        end = max(end, stop)
    if source[end:].strip(b" \t\n"):
        raise ShellFault("holds something that is not understood; write plain commands")


def _text(node: Node, source: bytes) -> str:
    return source[node.start_byte : node.end_byte].decode("utf-8", "replace")
