"""Approvals given in advance: for one tool, one pattern of arguments, a time and a number of uses."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fcguard.approval.request import IDENTITY_FIELDS
from fcguard.errors import ConfigurationError
from fcguard.model.identity import canonical

__all__ = ["ANY", "Glob", "Grant"]

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Glob:
    """Fits a text by an explicit pattern: `*` and `?` stand for characters other than `/`, everything else for itself.

    A text with a `..` segment or a control character never fits, so `Glob("docs/*")` does not reach outside `docs/`.
    """

    pattern: str
    _compiled: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str) or not self.pattern:
            raise ConfigurationError(f"Glob({self.pattern!r}): give a text such as 'docs/*'")
        pieces = re.split(r"(\*+|\?)", self.pattern)
        body = "".join(
            "[^/]*" if piece.startswith("*") else "[^/]" if piece == "?" else re.escape(piece) for piece in pieces
        )
        object.__setattr__(self, "_compiled", re.compile(body))

    def fits(self, value: Any) -> bool:
        """Answer whether a value is a text that the whole pattern fits."""
        if not isinstance(value, str) or _CONTROL.search(value) or ".." in value.replace("\\", "/").split("/"):
            return False
        return self._compiled.fullmatch(value) is not None


class _Any:
    """Fits every value; written out, because leaving a parameter out of a pattern means that the call must not have it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ANY"


ANY: Final = _Any()
"""In a grant's pattern: this parameter may have any value, or be absent."""


@dataclass(frozen=True, slots=True)
class Grant:
    """An approval given in advance.

    Attributes:
        tool: exact name of the tool.
        arguments: pattern by parameter: an exact JSON value, a `Glob`, or `ANY`. A call with a parameter that is not named here
            does not fit; None: any arguments at all.
        by: who grants it.
        uses: how many calls it is good for; used up also by a call that a later check refuses.
        expires_at: wall clock in seconds after which it is void; None: never.
        version: version of the tool; None: any.
        identity: values of the context that must be equal (`tenant`, `account`, `actor`, `environment`, `task_id`).
        grant_id: made up if not given.
    """

    tool: str
    arguments: Mapping[str, Any] | None
    by: str
    uses: int = 1
    expires_at: float | None = None
    version: str | None = None
    identity: Mapping[str, str] = field(default_factory=dict)
    grant_id: str = field(default_factory=lambda: f"grant-{uuid.uuid4().hex}")

    def __post_init__(self) -> None:
        if isinstance(self.uses, bool) or not isinstance(self.uses, int) or self.uses < 1:
            raise ConfigurationError(f"Grant({self.tool!r}): uses={self.uses!r}; give a whole number of at least 1")
        if not self.tool or not self.by:
            raise ConfigurationError("Grant(...): give the tool's exact name and by='name of who grants it'")
        unknown = sorted(self.identity.keys() - set(IDENTITY_FIELDS))
        if unknown:
            raise ConfigurationError(
                f"Grant({self.tool!r}): identity has unknown names {unknown!r}; use {', '.join(IDENTITY_FIELDS)}"
            )

    def fits(
        self, tool: str, version: str, arguments: Mapping[str, Any], identity: Mapping[str, str], now: float
    ) -> bool:
        """Answer whether the grant covers a call (whether uses are left is the store's knowledge).

        Args:
            tool: exact name.
            version: version of the tool.
            arguments: normalized arguments.
            identity: what the context holds of tenant, account, actor, environment and task.
            now: wall clock in seconds.
        """
        if tool != self.tool or (self.version is not None and version != self.version):
            return False
        if self.expires_at is not None and now >= self.expires_at:
            return False
        if any(identity.get(name) != value for name, value in self.identity.items()):
            return False
        return self.arguments is None or _fits(self.arguments, arguments)

    def as_json(self) -> dict[str, Any]:
        """Answer the grant as JSON values for a store."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if self.arguments is not None:
            values["arguments"] = {name: _to_json(pattern) for name, pattern in self.arguments.items()}
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Grant:
        """Read a grant that `as_json` wrote."""
        given = dict(values)
        if given["arguments"] is not None:
            given["arguments"] = {name: _from_json(pattern) for name, pattern in given["arguments"].items()}
        return cls(**given)


def _fits(patterns: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    if not arguments.keys() <= patterns.keys():
        return False
    for name, pattern in patterns.items():
        if pattern is ANY:
            continue
        if name not in arguments:
            return False
        value = arguments[name]
        # Compared as texts, since True == 1 and 1 == 1.0 in Python and not in what a person granted.
        if not (pattern.fits(value) if isinstance(pattern, Glob) else canonical(pattern) == canonical(value)):
            return False
    return True


def _to_json(pattern: Any) -> dict[str, Any]:
    if pattern is ANY:
        return {"any": True}
    return {"glob": pattern.pattern} if isinstance(pattern, Glob) else {"value": pattern}


def _from_json(pattern: Mapping[str, Any]) -> Any:
    if "any" in pattern:
        return ANY
    return Glob(pattern["glob"]) if "glob" in pattern else pattern["value"]
