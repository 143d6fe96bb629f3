"""What must be settled about the text of an SQL statement before a parser's reading of it can be trusted."""

from __future__ import annotations

import re
import unicodedata
from typing import Any, Final

from sqlglot import Token, TokenType

from fcguard.rules.globs import word_set

__all__ = ["SqlFault", "readable_tokens", "tokenize"]

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)")
_COMMENT: Final = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_MYSQL_COMMENT: Final = re.compile(r"--(?=\s|\Z)[^\n]*|#[^\n]*|/\*.*?\*/", re.DOTALL)
_PLAIN_BACKTICKS: Final = re.compile(r"`([\w$ .-]+)`")
_ODD_BACKSLASHES: Final = re.compile(r"(?<!\\)(?:\\\\)*\\['\"]")
_TEMPLATE: Final = re.compile(r"\{[{%#]")
_WHITE: Final = frozenset(" \t\r\n")
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zs", "Zl", "Zp"})
_BATCH_DIALECTS: Final = frozenset({"tsql", "fabric"})
_MYSQL_FAMILY: Final = frozenset({"mysql", "doris", "starrocks", "singlestore"})


BATCH_WORDS: Final = word_set(
    "ALTER BACKUP BEGIN BREAK BULK CHECKPOINT CLOSE COMMIT CONTINUE CREATE DBCC DEALLOCATE DECLARE DELETE DENY DISABLE DROP DUMP ENABLE "
    "EXEC EXECUTE GO GOTO GRANT IF INSERT KILL LOAD MERGE OPEN PRINT RAISERROR READTEXT RECONFIGURE RESTORE RETURN REVERT REVOKE "
    "ROLLBACK SAVE SETUSER SHUTDOWN THROW TRUNCATE UPDATE UPDATETEXT USE WAITFOR WHILE WRITETEXT"
)
"""Words that begin a new statement in dialects that need no semicolon between statements."""

_STRINGS: Final = frozenset(
    {
        *(TokenType.STRING, TokenType.NATIONAL_STRING, TokenType.RAW_STRING),
        *(TokenType.HEREDOC_STRING, TokenType.UNICODE_STRING, TokenType.BYTE_STRING),
    }
)
_QUOTED: Final = _STRINGS | {TokenType.IDENTIFIER}


class SqlFault(ValueError):
    """A text that is not one clear statement; the message says why."""


def tokenize(text: str, dialect: Any) -> list[Token]:
    """Answer the tokens of a text.

    Raises:
        SqlFault: it is not SQL of the dialect.
    """
    try:
        return list(dialect.tokenize(text))
    except Exception:  # whatever a tokenizer raises on a stranger's text means that it cannot be read
        raise SqlFault("cannot be read as SQL (an open string or comment?)") from None


def readable_tokens(text: str, dialect: Any, name: str | None) -> list[Token]:
    """Answer the tokens of one statement, if all programs that will see the text cut it alike.

    Args:
        text: the statement.
        dialect: the sqlglot dialect.
        name: its name; None: not known, then the text must mean the same in all common dialects.

    Raises:
        SqlFault: it holds nothing, more than one statement, or something that databases read in different ways.
    """
    if _CONTROL.search(text):
        raise SqlFault("holds control characters")
    if name is None:
        text = _PLAIN_BACKTICKS.sub(r'"\1"', text)
    tokens = tokenize(text, dialect)
    code = _without_strings(text, tokens)
    _check_comments(code, name)
    if name is None:
        _check_common_reading(text, code, tokens)
    if "\\" in code or _TEMPLATE.search(code):
        raise SqlFault("holds a backslash or template marks outside a text")
    for token in tokens:
        if token.token_type not in _QUOTED and any(
            unicodedata.category(letter) in _HIDDEN for letter in token.text if letter not in _WHITE
        ):
            raise SqlFault("holds invisible characters outside a text")
    return _placeholders(_one_statement(tokens, name))


def _one_statement(tokens: list[Token], name: str | None) -> list[Token]:
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        raise SqlFault("holds no statement")
    if any(token.token_type == TokenType.SEMICOLON for token in tokens):
        raise SqlFault("holds more than one statement; send one")
    if name is None or name in _BATCH_DIALECTS:
        _check_batch(tokens)
    return tokens


def _check_batch(tokens: list[Token]) -> None:
    """Refuse a word that begins a statement where one could begin; some dialects need no semicolon between statements."""
    altering = tokens[0].text.upper() == "ALTER"
    for index in range(1, len(tokens)):
        before, token = tokens[index - 1], tokens[index]
        word = token.text.upper().partition(" ")[0]
        if token.token_type in _QUOTED or word not in BATCH_WORDS or _needs_more(before):
            continue
        if word in CHANGES and before.token_type == TokenType.R_PAREN:
            continue  # after a WITH; the parsed statement shows whether it is one
        if altering and tokens[index + 1 : index + 2] and tokens[index + 1].text.upper() in ("COLUMN", "CONSTRAINT"):
            continue
        raise SqlFault(f"holds {word!r}, which can begin a second statement; send one, and quote a name like that")


def _needs_more(token: Token) -> bool:
    """Tell whether no statement can end at this token."""
    if token.token_type in _QUOTED:
        return False
    return token.text.upper().rpartition(" ")[2] in _OPEN_WORDS or (
        token.token_type not in _ENDS and not token.text[:1].isalnum()
    )


CHANGES: Final = frozenset({"UPDATE", "DELETE", "INSERT", "MERGE"})
_ENDS: Final = frozenset(
    {
        TokenType.NUMBER,
        TokenType.R_PAREN,
        TokenType.R_BRACKET,
        TokenType.R_BRACE,
        TokenType.STAR,
        TokenType.PLACEHOLDER,
        TokenType.VAR,
    }
)
_OPEN_WORDS: Final = word_set(
    "SELECT DISTINCT ALL AS FROM WHERE AND OR NOT ON BY HAVING IN LIKE ILIKE BETWEEN THEN ELSE WHEN CASE UNION EXCEPT INTERSECT JOIN INTO "
    "SET KEY DO FOR TABLE VIEW INDEX IS WITH USING TOP LIMIT OFFSET OVER"
)


def _without_strings(text: str, tokens: list[Token]) -> str:
    """Blank the inside of texts and quoted names, so that what is left is code and comments."""
    letters = list(text)
    for token in tokens:
        if token.token_type in _QUOTED:
            letters[token.start : token.end + 1] = "x" * (token.end + 1 - token.start)
    return "".join(letters)


def _check_comments(code: str, name: str | None) -> None:
    pattern = _MYSQL_COMMENT if name in _MYSQL_FAMILY else _COMMENT
    for comment in pattern.findall(code):
        if comment.startswith(("/*!", "/*M!")):
            raise SqlFault("holds a comment that some databases execute; leave it out")
        if comment.startswith("/*") and "/*" in comment[2:]:
            raise SqlFault("holds nested comments, which databases read in different ways; leave them out")
        if name is None and comment.startswith("--") and comment[2:3].strip():
            raise SqlFault("holds '--' without a space after it, which databases read in different ways")
    rest = pattern.sub(" ", code)
    if "/*" in rest or "*/" in rest:
        raise SqlFault("holds an open comment")


def _check_common_reading(text: str, code: str, tokens: list[Token]) -> None:
    """Refuse what dialects cut differently, for the dialect is not known."""
    rest = _COMMENT.sub(" ", code)
    if "`" in text or _ODD_BACKSLASHES.search(text):
        raise SqlFault("holds quotes that databases read in different ways; name the dialect in the rule")
    if "#" in rest or "//" in rest or "$$" in rest or re.search(r"\$[A-Za-z_]\w*\$", rest):
        raise SqlFault(
            "holds '#', '//' or dollar quotes, which databases read in different ways; name the dialect in the rule"
        )
    depth = 0
    for token in tokens:
        depth += (token.token_type == TokenType.L_BRACKET) - (token.token_type == TokenType.R_BRACKET)
        if depth > 0 and token.token_type in _STRINGS and "]" in token.text:
            raise SqlFault("holds brackets that databases read in different ways; name the dialect in the rule")


def _placeholders(tokens: list[Token]) -> list[Token]:
    """Replace the `%s` of database drivers by the placeholder that parsers know."""
    out: list[Token] = []
    for token in tokens:
        last = out[-1] if out else None
        is_driver_mark = (
            last is not None and last.token_type == TokenType.MOD and token.text == "s" and token.start == last.end + 1
        )
        if last is not None and is_driver_mark and (len(out) < 2 or _needs_more(out[-2])):
            out[-1] = Token(TokenType.PLACEHOLDER, "?", last.line, last.col, last.start, token.end)
        else:
            out.append(token)
    return out
