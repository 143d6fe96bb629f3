"""The rule that keeps paths within a root directory."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, ClassVar, Final
from urllib.parse import unquote

from fcguard.errors import ConfigurationError
from fcguard.rules.base import BaseRule
from fcguard.rules.parameters import ParameterRule, refusal
from fcguard.rules.protocols import RuleCall, Verdict
from fcguard.rules.selectors import Selector, selectors

__all__ = ["paths"]

_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_LOOK_ALIKES: Final = frozenset(
    "\u2215\u2044\u29f8\u29f5\u29f9\u2216\ufe68\uff0f\uff3c\uff0e\u2024\u2025\u2026\ufe52\uff5e\u02dc\u223c"
)
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_JOINED: Final = re.compile(r"(?<=[^\x00-\x7f])[\u200c\u200d](?=[^\x00-\x7f])")
"""Joiners within a word or an emoji; elsewhere they are seen by nobody."""
_SCHEME: Final = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)+/")
_VARIABLE: Final = re.compile(
    r"`|\$\{|\$\(|\$env:|\$[A-Z_][A-Z0-9_]+|%[A-Za-z_][A-Za-z0-9_]*%|![A-Za-z_][A-Za-z0-9_]*!"
)
_DEVICE: Final = re.compile(
    r"-|(?:con|prn|aux|nul|clock\$|conin\$|conout\$|(?:com|lpt)[1-9\u00b9\u00b2\u00b3])(?:[.:].*)?", re.IGNORECASE
)
_ENCODED: Final = re.compile(r"%u[0-9A-Fa-f]{4}")
_STREAM: Final = re.compile(r"::|\.[A-Za-z]\w{0,7}:")
_MAX_PATH: Final = 4096


def paths(
    *parameters: str,
    root: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    must_exist: bool = False,
    suffixes: Iterable[str] | None = None,
) -> BaseRule:
    """Keep paths within a root directory (`PARAM_INVALID`), judged after `..` and symlinks are resolved.

    Relative paths are taken from the first root. Refused on every platform, for a tool may run on another one: `~`,
    variables, backslashes, drive letters, UNC paths, device names, streams, NUL and other control characters, look-alikes
    of `/` and `.`, and percent-encoding that hides any of these. Not promised: what changes on the disk between the check
    and the use, and hard links, which cannot be told from files.

    Args:
        parameters: dotted paths (`path`, `files[*].path`); default: `path`.
        root: the directory, or several; a relative one is taken from the working directory of now.
        must_exist: whether the path has to lead to something.
        suffixes: allowed endings of the file name, with the dot, any case; None: any.

    Raises:
        ConfigurationError: no root, the root of the whole file system, or a suffix without its dot.
    """
    given = (root,) if isinstance(root, str | os.PathLike) else tuple(root)
    roots = tuple(Path(one).absolute() for one in given if os.fspath(one))
    if not roots or len(roots) != len(given):
        raise ConfigurationError("paths: name at least one directory as root")
    if any(one.resolve().parent == one.resolve() for one in roots):
        raise ConfigurationError("paths: the root of the file system bounds nothing; name the directory that is meant")
    endings = None if suffixes is None else tuple(suffix.lower() for suffix in suffixes)
    if endings is not None and not all(ending.startswith(".") for ending in endings):
        raise ConfigurationError(f"paths: suffixes={endings!r}: write them with the dot, such as '.txt'")
    return _Paths(selectors(parameters or ("path",), "paths"), roots, must_exist, endings)


@dataclass(frozen=True, slots=True, repr=False)
class _Paths(ParameterRule):
    name: ClassVar[str] = "paths"
    selectors: tuple[Selector, ...]
    root: tuple[Path, ...]
    must_exist: bool
    suffixes: tuple[str, ...] | None

    def examine(self, path: str, value: Any, call: RuleCall) -> Verdict:
        if not isinstance(value, str):
            return refusal(self.name, path, "must be one path, a text")
        reason = _why_unclear(value) or self._why_outside(value)
        return None if reason is None else refusal(self.name, path, reason)

    def _why_outside(self, value: str) -> str | None:
        try:
            resolved = (self.root[0] / value).resolve()
            inside = any(resolved.is_relative_to(root.resolve()) for root in self.root)
            exists = resolved.exists() if self.must_exist else True
        except (OSError, ValueError, RuntimeError):  # too long a name, a loop of symlinks
            return "cannot be resolved on this system"
        if not inside:
            return "leads outside the allowed directory; give a path below it, relative to it"
        if self.suffixes is not None and not resolved.name.lower().endswith(self.suffixes):
            return f"must end in one of {', '.join(self.suffixes)}"
        return None if exists else "leads to nothing that exists"


def _why_unclear(value: str) -> str | None:
    """Answer why a path could mean different things to different programs; None if it is plain."""
    if not value or len(value) > _MAX_PATH or value != value.strip():
        return f"must be a path of 1 to {_MAX_PATH} characters, without spaces around it"
    texts = _decodings(value)
    if _ENCODED.search(value) or unquote(texts[-1], errors="replace") != texts[-1]:
        return "hides a part of the path by encoding it over and over, or as '%u'; write it plainly"
    for text in texts:
        if any(unicodedata.category(letter) in _HIDDEN for letter in _JOINED.sub("", text)):
            return "holds control or invisible characters"
        if not _LOOK_ALIKES.isdisjoint(text) or _gains_separators(text):
            return "holds look-alikes of '/', '\\' or '.'; write plain ones"
        if text is not value and (
            "/" in text[:1] or ".." in PurePath(text).parts or text.count("/") > value.count("/")
        ):
            return "hides a part of the path by percent-encoding; write it plainly"
        if (reason := _why_foreign(text)) is not None:
            return reason
    return None


def _why_foreign(text: str) -> str | None:
    if text.startswith("~") or "/~" in text or _VARIABLE.search(text):
        return "holds '~', a variable or a backtick, which some programs replace; write the path out"
    if "\\" in text or _DRIVE.match(text) or text.startswith("//"):
        return "is written in a Windows or network form; use '/' and a path below the allowed directory"
    if _SCHEME.match(text) or text.lower().startswith(("file:", "data:")):
        return "is a URL; give a path"
    for part in text.split("/"):
        if _DEVICE.fullmatch(part.strip()) or _STREAM.search(part):
            return "names a device or a stream"
        if part.startswith("..;") or (part not in (".", "..") and part.endswith((".", " "))):
            return "has a part that ends in a dot or space, or begins with '..;', which some systems read as '..'"
    return None


def _decodings(value: str) -> list[str]:
    """Answer the path and what a program would make of it that decodes percent-encoding, up to three times."""
    texts = [value]
    while "%" in texts[-1] and len(texts) < 4 and (decoded := unquote(texts[-1], errors="replace")) != texts[-1]:
        texts.append(decoded)
    return texts


def _gains_separators(text: str) -> bool:
    """Tell whether compatibility folding would put a separator, dot or tilde where none is written."""
    if text.isascii():
        return False
    folded = unicodedata.normalize("NFKC", text)
    return any(folded.count(letter) > text.count(letter) for letter in "/\\.~:")
