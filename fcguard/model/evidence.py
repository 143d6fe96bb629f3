"""A reference to something kept outside the envelope: a log, a screenshot, a body, a big result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Evidence"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where one piece of evidence lies, and how to prove that it is still the same.

    Attributes:
        type: what it is: `log`, `image`, `result`, `table`, `text`, `artifact`, or a word of the tool's own.
        ref: path below the evidence directory with `/` between its parts, or a URL.
        digest: `sha256:` and 64 hexadecimal digits of the content; None if it can still grow (a log).
        media_type: IANA media type, e.g. `image/png`.
        size: bytes.
    """

    type: str
    ref: str
    digest: str | None = None
    media_type: str | None = None
    size: int | None = None

    def model_dump(self) -> dict[str, Any]:
        """Answer the published form: `type` and `ref`, then only the fields that are set."""
        form: dict[str, Any] = {"type": self.type, "ref": self.ref}
        if self.digest is not None:
            form["digest"] = self.digest
        if self.media_type is not None:
            form["media_type"] = self.media_type
        if self.size is not None:
            form["size"] = self.size
        return form
