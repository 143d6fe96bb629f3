"""What must never be written down in clear: secret names, secret values, and the mask that replaces them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from operator import is_ as _is
from typing import Any, Final
from urllib.parse import quote, quote_plus

from fcguard.model.secret_names import is_counted, is_secret_name, known_names

__all__ = [
    "MASK",
    "PLAIN_REDACTOR",
    "Redactor",
    "is_secret_name",
    "may_hold_secrets",
    "names_secrets",
    "secret_properties",
    "writable",
]

MASK: Final = "[redacted]"

_FIELD: Final = re.compile(r"""(?<!\\)(?P<quote>\\{0,15}["'])(?P<name>[\w. -]{2,64})(?P=quote)\s{0,8}:\s{0,8}""")
"""Name of a field in JSON, in JSON within JSON text at any depth (the quotes have backslashes then), or in a Python repr."""

_PAIR: Final = re.compile(
    r"(?i)(?<![\w.-])(?P<name>[\w.-]{2,64})\s{0,4}[=:]\s{0,4}(?:(?:bearer|basic|digest|token)\s{1,4}(?=\S))?"
)
_QUOTE: Final = re.compile(r"""\\{0,15}["']""")
_BRACKET: Final = re.compile(r"[\[\]{}]")
_BARE: Final = re.compile(r"[^\s,}\]]+")
_WORD: Final = re.compile(r"""[^\s,;&"']+""")
_HEADER_SECRET: Final = re.compile(
    r"(?i)\b((?:proxy-)?authorization\s{0,4}[:=]\s{0,4}+(?:(?:bearer|basic|digest|token)(?![\w-]))?+\s{0,4}+|bearer\s{1,4}+)"
    r"(?!\[redacted\])[^\s,;\"']{3,}[^\s,;\"'()<>{}\[\].:!?]"
)
"""A value of a header ends in a letter, digit or sign of base64; what closes a sentence after it stays."""

_COOKIE: Final = re.compile(r"(?i)\b((?:set-)?cookie\s{0,4}:\s{0,4})[^\s\"'][^\r\n\"']*")
_URL_SECRET: Final = re.compile(r"(?i)\b([a-z][a-z0-9+.-]{1,20}://[^\s/:@?#]{0,256}:)[^\s/?#]{1,256}@")
_SIGNED: Final = re.compile(r"(?i)([?&;](?:sig|signature|x-(?:amz|goog|oss|cos|obs)-signature)=)[^\s&;,\"'<>]+")
_OPTION: Final = re.compile(r"-(?<![\w-]-)-?(?P<name>[A-Za-z][\w.-]{1,63})[ \t]{1,4}(?=[^\s-])")
_IS_OPTION: Final = re.compile(r"--?([A-Za-z][\w.-]{1,63})")
_LOGIN: Final = re.compile(r"((?:^|\s)(?:-u|--user|-U|--proxy-user)[ =]?\s{0,4}[\"']?[^\s:\"']{1,256}:)[^\s\"']+")
_FORMS: Final = re.compile(
    r"(?<![\w-])(?:eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}|gh[oprsu]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|xox[abeoprs]-[\w-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}(?!\w)|AIza[\w-]{30,}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"
    r"|sk-(?:ant|proj|svcacct|admin|or-v1)-[\w-]{16,}|sk-[A-Za-z0-9]{32,}|hf_[A-Za-z0-9]{30,}|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{30,}"
    r"|SG\.[\w-]{16,}\.[\w-]{16,})"
)
"""Tokens that can be told by how they begin: JWT, GitHub, GitLab, Slack, AWS, Google, Stripe, model providers, registries."""
_PEM: Final = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL
)
_SHORTEST_FORM: Final = 20
_MOST_PASSES: Final = 6
"""How often a text is looked through, until nothing changes; what a mask leaves can look like another secret (`-token` after a key)."""

_DONE: Final = re.compile(r"\[redacted\][)\]}>.:!?]*(?=[\s,;&\"']|\Z)")
"""A value that is masked already, with what closes a sentence after it."""

_HARMLESS: Final = frozenset({"null", "None", "true", "True", "false", "False"})
_SHORTEST: Final = 4
"""Characters of the shortest secret that is masked wherever it occurs."""

_DEEPEST: Final = 64
"""How deep in each other the parts of a schema are looked at."""

_DISTINCT: Final = 8
"""Characters from which on a secret is masked within words too."""


def secret_properties(schema: Mapping[str, Any], extra: Collection[str] = ()) -> frozenset[str]:
    """Name the properties, at any depth, that a schema or its user marks as secret (`writeOnly`, `format: password`, name)."""
    names = set(extra)
    for node in _objects(schema):
        for name, sub in _properties(node).items():
            if isinstance(sub, Mapping) and (sub.get("writeOnly") is True or sub.get("format") == "password"):
                names.add(name)
    return frozenset(names)


def may_hold_secrets(schema: Mapping[str, Any], secrets: Collection[str]) -> bool:
    """Answer whether arguments of this schema can hold a field with a secret name: it has one, or it is open somewhere."""
    return bool(secrets) or any(
        node is None or "$ref" in node or _is_open(node) or _names_one(node) for node in _objects(schema)
    )


def names_secrets(schema: Mapping[str, Any], extra: Collection[str] = ()) -> bool:
    """Answer whether a schema, or its user, names a property that is secret, by mark or by name, at any depth."""
    return bool(secret_properties(schema, extra)) or any(node is None or _names_one(node) for node in _objects(schema))


def _objects(schema: Any) -> Iterator[Mapping[str, Any] | None]:
    """Yield every object in a schema; None for what lies deeper than anybody looks."""
    left = [(schema, 0)]
    while left:
        node, depth = left.pop()
        if depth > _DEEPEST:
            yield None
        elif isinstance(node, Mapping):
            yield node
            left += [(sub, depth + 1) for sub in node.values()]
        elif isinstance(node, list):
            left += [(sub, depth + 1) for sub in node]


def _properties(node: Mapping[str, Any] | None) -> Mapping[str, Any]:
    found = {} if node is None else node.get("properties")
    return found if isinstance(found, Mapping) else {}


def _names_one(node: Mapping[str, Any]) -> bool:
    return any(is_secret_name(str(name)) for name in _properties(node))


def _is_open(node: Mapping[str, Any]) -> bool:
    kind = node.get("type")
    is_object = (
        isinstance(node.get("properties"), Mapping) or kind == "object" or (isinstance(kind, list) and "object" in kind)
    )
    return is_object and node.get("additionalProperties", True) is not False


class Redactor:
    """Masks secrets in JSON values and texts.

    Args:
        names: field names that are secret beside those `is_secret_name` knows.
        values: secret texts that are masked wherever they occur (shorter than 4 characters are left alone).
    """

    __slots__ = ("_names", "_values")

    def __init__(self, names: Iterable[str] = (), values: Iterable[str] = ()) -> None:
        self._names = frozenset(names)
        forms = {form for value in values if len(value) >= _SHORTEST for form in _forms(value)}
        self._values = tuple(sorted(forms, key=lambda form: (-len(form), form)))

    def is_secret(self, name: str) -> bool:
        """Answer whether a field of this name is masked."""
        return name in self._names or is_secret_name(name)

    def with_values(self, values: Iterable[str]) -> Redactor:
        """Answer a redactor that also masks these texts."""
        other = Redactor(self._names, values)
        if self._values:
            other._values = tuple(sorted({*self._values, *other._values}, key=lambda form: (-len(form), form)))
        return other

    def knowing(self, arguments: Mapping[str, Any]) -> Redactor:
        """Answer a redactor that also masks the secrets among these arguments, wherever they come back; itself if there are none."""
        values = tuple(self.secret_values(arguments))
        return self.with_values(values) if values else self

    def secret_values(self, value: Any) -> Iterator[str]:
        """Yield every text that lies under a secret name in a JSON value."""
        for name, item in _pairs(value):
            if self.is_secret(name) and not self._is_count(name, item):
                yield from _texts(item)

    def value(self, value: Any) -> Any:
        """Answer a JSON value with secrets masked; the same object if there are none."""
        if isinstance(value, dict):
            changed = self._changes(value)
            return {**value, **changed} if changed else value
        if isinstance(value, list):
            items = [self._item(item) for item in value]
            for at in range(1, len(items)):
                if self._is_value_of(items[at - 1], items[at]):
                    items[at] = MASK
            return value if all(map(_is, items, value)) else items
        return self._item(value)

    def _changes(self, value: dict[str, Any]) -> dict[str, Any]:
        names, known = self._names, known_names
        changed: dict[str, Any] = {}
        for name, item in value.items():
            kind = item.__class__
            if item is None or kind is bool:
                continue
            is_secret = known.get(name)
            if (is_secret_name(name) if is_secret is None else is_secret) or name in names:
                if not self._is_count(name, item):
                    changed[name] = MASK
            elif kind is str:
                if self._values or _may_speak(item):
                    new: Any = self.text(item)
                    if new is not item:
                        changed[name] = new
            elif kind is not int and kind is not float:
                new = self.value(item)
                if new is not item:
                    changed[name] = new
        return changed

    def _item(self, item: Any) -> Any:
        if item.__class__ is str:
            return self.text(item)
        return self.value(item) if isinstance(item, (dict, list)) else item

    def _is_count(self, name: str, item: Any) -> bool:
        """Tell whether a value is a number of secrets, not one: `tokens: 500`; what the user names is always secret."""
        return name not in self._names and is_counted(name, item)

    def _is_value_of(self, option: Any, item: Any) -> bool:
        """Tell whether two words of a command line are an option with a secret name and its value."""
        if option.__class__ is not str or item.__class__ is not str or option[:1] != "-" or item[:1] in ("-", ""):
            return False
        match = _IS_OPTION.fullmatch(option)
        return match is not None and self.is_secret(match[1]) and item != MASK

    def text(self, text: str) -> str:
        """Answer a text with secrets masked.

        Known secret values, JSON fields, headers, `key=value` pairs, options of a command line, passwords in URLs and signatures
        of signed ones, private keys, and tokens that can be told by how they begin. What is masked stays as it is.
        """
        original = text
        text = self.known(text)
        if _may_speak(text):
            for _ in range(_MOST_PASSES):
                before = text
                text = self._speaking(text)
                if text == before:
                    break
        return original if text == original else text

    def _speaking(self, text: str) -> str:
        if _may_hold_form(text):
            text = _FORMS.sub(MASK, _PEM.sub(MASK, text))
        if ":" in text or "=" in text or "earer" in text:
            if '"' in text or "'" in text:
                text = self._mask_after(_FIELD, _field_end, text)
            text = _HEADER_SECRET.sub(rf"\1{MASK}", text)
            text = _COOKIE.sub(rf"\1{MASK}", text)
            text = self._mask_after(_PAIR, _pair_end, text)
            if "://" in text:
                text = _URL_SECRET.sub(rf"\1{MASK}@", text)
            if "&" in text or "?" in text:
                text = _SIGNED.sub(rf"\1{MASK}", text)
            if "curl" in text:
                text = _LOGIN.sub(rf"\1{MASK}", text)
        if _may_hold_option(text):
            text = self._mask_after(_OPTION, _pair_end, text)
        return text

    def words(self, text: str) -> str:
        """Answer a text as `text` does, with what cannot be written as UTF-8 (lone surrogates) spelt out."""
        return writable(self.text(text))

    def known(self, text: str) -> str:
        """Answer a text with the known secret values masked, and nothing else."""
        for secret in self._values:
            if secret in text:
                if len(secret) >= _DISTINCT:
                    text = text.replace(secret, MASK)
                else:
                    text = re.sub(rf"(?<![^\W_]){re.escape(secret)}(?![^\W_])", MASK, text)
        return text

    def _mask_after(
        self, head: re.Pattern[str], end: Callable[[str, re.Match[str]], tuple[int, str]], text: str
    ) -> str:
        """Mask what follows a secret name; what follows another name is looked at in turn."""
        parts: list[str] = []
        kept = at = 0
        while (match := head.search(text, at)) is not None:
            at = match.end()
            if self.is_secret(match["name"]):
                after, mask = end(text, match)
                if mask and not self._is_count(match["name"], text[at:after].strip("\"' \\")):
                    parts += text[kept:at], mask
                    kept = at = after
        return "".join((*parts, text[kept:])) if parts else text


def _may_speak(text: str) -> bool:
    """Tell, at little cost, whether a text can hold a secret that is told by what stands before it or by its form."""
    if ":" in text or "=" in text or "earer" in text:
        return True
    return ("-" in text and _may_hold_option(text)) or (len(text) >= _SHORTEST_FORM and _may_hold_form(text))


def _may_hold_option(text: str) -> bool:
    return " -" in text or "--" in text or text[:1] == "-"


def _may_hold_form(text: str) -> bool:
    if "eyJ" in text or "AKIA" in text or "ASIA" in text or "AIza" in text or "SG." in text:
        return True
    if "-" in text and ("sk-" in text or "xox" in text or "glpat-" in text or "pypi-" in text or "-----BEGIN" in text):
        return True
    return "_" in text and ("gh" in text or "k_live_" in text or "k_test_" in text or "hf_" in text or "npm_" in text)


def writable(text: str) -> str:
    """Answer a text that can be written as UTF-8: lone surrogates are spelt out."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _field_end(text: str, head: re.Match[str]) -> tuple[int, str]:
    """Answer where the value of a field ends, and what takes its place; empty if nothing has to."""
    start, mask = head.end(), f"{head['quote']}{MASK}{head['quote']}"
    quote = _QUOTE.match(text, start)
    if quote is not None:
        return _string_end(text, quote.end(), quote[0]), f"{quote[0]}{MASK}{quote[0]}"
    if text[start : start + 1] in ("{", "["):
        depth = 0
        for bracket in _BRACKET.finditer(text, start):
            depth += 1 if bracket[0] in "{[" else -1
            if depth == 0:
                return bracket.end(), mask
        return len(text), mask
    bare = _BARE.match(text, start)
    if bare is None or bare[0] in _HARMLESS:
        return start, ""
    return bare.end(), mask


def _string_end(text: str, start: int, quote: str) -> int:
    """Answer the position after the closing quote; a quote within the string has more backslashes than it."""
    level = len(quote)
    at = text.find(quote[-1], start)
    while at >= 0:
        run = at - 1
        while run >= start and text[run] == "\\":
            run -= 1
        if (at - 1 - run - (level - 1)) % (2 * level) == 0 and at - 1 - run >= level - 1:
            return at + 1
        at = text.find(quote[-1], at + 1)
    return len(text)


def _pair_end(text: str, head: re.Match[str]) -> tuple[int, str]:
    start = head.end()
    if _DONE.match(text, start):
        return start, ""
    quote = text[start : start + 1]
    if quote and quote in "\"'":
        end = text.find(quote, start + 1)
        return (len(text) if end < 0 else end + 1), f"{quote}{MASK}{quote}"
    word = _WORD.match(text, start)
    return (start, "") if word is None else (word.end(), MASK)


def _forms(value: str) -> Iterator[str]:
    """Yield a secret as it is, and as it looks in JSON text, in a Python repr and in a URL."""
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]
    yield quote(value, safe="", errors="replace")
    yield quote_plus(value, safe="", errors="replace")


PLAIN_REDACTOR: Final = Redactor()
"""Masks what is secret by name or by form alone."""


def _pairs(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield name, item
            yield from _pairs(item)
    elif isinstance(value, list):
        for item in value:
            yield from _pairs(item)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, int) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
