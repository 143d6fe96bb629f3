"""The rule that reads shell text with a parser and lets listed commands through."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fcguard.errors import ConfigurationError, MissingExtraError
from fcguard.model.failure import ErrorType, Violation
from fcguard.rules.base import BaseRule
from fcguard.rules.globs import is_glob
from fcguard.rules.parameters import ParameterRule, refusal
from fcguard.rules.protocols import RuleCall, Verdict
from fcguard.rules.selectors import Selector, selectors
from fcguard.rules.shell_hazards import HAZARDS, hazardous, is_launcher, runs_others

if TYPE_CHECKING:
    from fcguard.rules.shell_syntax import PlainCommand

__all__ = ["shell"]

_MAX_TEXT = 8192


def shell(*parameters: str, allow: Iterable[str], on_refusal: Literal["refuse", "approval"] = "refuse") -> BaseRule:
    """Let shell text through that consists of listed commands only, as a parser reads it (needs the extra `shell`).

    A list joined by `&&`, `||`, `;`, `|` or newlines is split, and each command must be allowed. Everything else is
    refused: substitutions, variables, redirections (but for /dev/null and `2>&1`), here-documents, brace expansion,
    subshells, background, comments, variables before the command, and what the parser does not understand. So are options
    with which a listed command would write a file or run another command (`find -exec`, `git --output`).
    `DANGEROUS_OPERATION`, or `APPROVAL_REQUIRED`. Not promised: that a listed command is harmless with every argument.

    Args:
        parameters: dotted paths; default: `command`.
        allow: commands, compared word by word, never as text: `git status` allows `git status --short`, but neither
            `git stash` nor `git statusx`. A word may be a glob (`npm run test:*`). A command that runs others (`env`,
            `sudo`, `python`, `sed` without `--sandbox`) must be written out whole and takes no further words. An option that
            an entry writes out is meant (`sort -o sorted.txt`), and so is a first word (`git config`, `docker run`).
        on_refusal: `refuse` (`DANGEROUS_OPERATION`), or `approval`: ask for it (`APPROVAL_REQUIRED`, `request_approval`),
            so that the rule also serves as a tool's `approval=`.

    Raises:
        ConfigurationError: an entry is no plain command, or would allow any command.
        MissingExtraError: the parser is not installed.
    """
    try:
        from fcguard.rules import shell_syntax  # imported here, for it needs the extra
    except ImportError as missing:
        raise MissingExtraError(missing.name or "tree-sitter-bash", "shell") from None
    if on_refusal not in ("refuse", "approval"):
        raise ConfigurationError(f"shell: on_refusal={on_refusal!r}: use 'refuse' or 'approval'")
    given = (allow,) if isinstance(allow, str) else tuple(allow)
    if not given:
        raise ConfigurationError("shell: allow names no command; write allow=['git status', 'ls']")
    entries: list[tuple[str, ...]] = []
    for text in given:
        try:
            (command,) = shell_syntax.plain_commands(text)
        except (shell_syntax.ShellFault, ValueError, TypeError, AttributeError):
            raise ConfigurationError(f"shell: allow={text!r} is not one plain command; write 'git status'") from None
        if is_launcher(command.words) and len(command.words) == 1:
            raise ConfigurationError(
                f"shell: {text!r} runs any other command; write out what it may run, such as 'python -m pytest'"
            )
        entries.append(command.words)
    return _Shell(selectors(parameters or ("command",), "shell"), tuple(entries), on_refusal == "approval")


@dataclass(frozen=True, slots=True, repr=False)
class _Shell(ParameterRule):
    name: ClassVar[str] = "shell"
    selectors: tuple[Selector, ...]
    allow: tuple[tuple[str, ...], ...]
    asks_approval: bool

    def examine(self, path: str, value: Any, call: RuleCall) -> Verdict:
        from fcguard.rules.shell_syntax import ShellFault, plain_commands  # imported here, for it needs the extra

        if not isinstance(value, str):
            return refusal(self.name, path, "must be one shell command, a text")
        if len(value) > _MAX_TEXT:
            return self._refuse(path, f"is longer than {_MAX_TEXT} characters")
        try:
            commands = plain_commands(value)
        except ShellFault as fault:
            return self._refuse(path, str(fault))
        for command in commands:
            if (reason := self._why_not(command)) is not None:
                return self._refuse(path, reason)
        return None

    def _why_not(self, command: PlainCommand) -> str | None:
        words = command.words
        named = max((len(entry) for entry in self.allow if _begins(words, entry)), default=0)
        if named == 0 or runs_others(words, named):
            listed = ", ".join(repr(" ".join(entry)) for entry in self.allow)
            return f"runs {' '.join(words[:2])[:40]!r} with words that are not on the list; allowed: {listed}"
        option = hazardous(words, named)
        if option is not None:
            return f"runs {words[0]!r} with {option.partition('=')[0][:40]!r}, by which it can write files or run other commands"
        if words[0].rsplit("/", 1)[-1] in HAZARDS and any(words[index][0] in "*?[" for index in command.globs):
            return f"gives {words[0]!r} file names that could be read as options; write './*' instead of '*'"
        return None

    def _refuse(self, path: str, message: str) -> Violation:
        if self.asks_approval:
            return refusal(self.name, path, message, code=ErrorType.APPROVAL_REQUIRED, next_action="request_approval")
        return refusal(self.name, path, message, code=ErrorType.DANGEROUS_OPERATION, next_action=None)


def _begins(words: tuple[str, ...], entry: tuple[str, ...]) -> bool:
    if len(words) < len(entry) or (len(words) > len(entry) and is_launcher(entry)):
        return False
    return all(
        fnmatchcase(word, wanted) if is_glob(wanted) else word == wanted
        for word, wanted in zip(words, entry, strict=False)
    )
