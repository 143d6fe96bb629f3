"""Evidence as files: where they lie, what they are called, and the digest that proves them unchanged."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import quote

from fcguard.errors import UsageError
from fcguard.model.evidence import Evidence
from fcguard.model.secrets import Redactor
from fcguard.results.masking import masked
from fcguard.results.media import evidence_type, media_type_of_name

__all__ = ["ArtifactDirectory"]

_LONGEST_PART: Final = 120
"""Bytes of one part of a path; most file systems allow 255, and a digest or suffix may be added."""

_DEVICE_NAMES: Final = frozenset(
    ["con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10))]
)
_CHUNK: Final = 1 << 20


class ArtifactDirectory:
    """The evidence directory: `logs/<tool>/<request id>.log` and `artifacts/<tool>/<request id>/<name>`.

    Tool names and request ids are encoded so that no two share a path and none leaves the directory; a file name given by a tool
    is refused if it is not one plain name. Files are written whole or not at all, readable by their owner only, and never
    overwritten: other content under a taken name gets another name. Not promised: that a file survives a power loss
    (the digest in the ledger tells), and protection from a process that may write in the directory itself.

    Args:
        root: the directory; made when the first file is kept.
    """

    __slots__ = ("root",)

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root).absolute()

    def __repr__(self) -> str:
        return f"ArtifactDirectory({os.fspath(self.root)!r})"

    def path_for(self, tool: str, request_id: str, name: str) -> Path:
        """Answer where the artifact `name` of a call lies, or would lie; touches nothing.

        Args:
            tool: any text; encoded.
            request_id: any text; encoded.
            name: one plain file name.

        Raises:
            UsageError: `name` is no plain file name.
        """
        return self.root / "artifacts" / _part(tool) / _part(request_id) / _plain(name)

    def log_path(self, tool: str, request_id: str) -> Path:
        """Answer where the log of a call lies, or would lie; touches nothing."""
        return self.root / "logs" / _part(tool) / f"{_part(request_id)}.log"

    def ref(self, path: str | os.PathLike[str]) -> str:
        """Answer a path as evidence names it: below the directory, parts joined by `/`.

        Raises:
            UsageError: the path is, or leads through a link, outside the directory.
        """
        whole = Path(path)
        root = self.root.resolve()
        resolved = (whole if whole.is_absolute() else self.root / whole).resolve()
        if not resolved.is_relative_to(root) or resolved == root:
            raise UsageError(f"{os.fspath(path)!r} is not a file below the evidence directory; keep a copy instead")
        return resolved.relative_to(root).as_posix()

    def keep(
        self,
        data: bytes,
        media_type: str,
        suffix: str,
        *,
        tool: str,
        request_id: str,
        name: str | None = None,
        type: str | None = None,
    ) -> Evidence:
        """Write an artifact of a call and answer its reference.

        Args:
            data: content.
            media_type: IANA media type.
            suffix: ending of the made-up name, with its dot; unused if `name` is given.
            tool: name of the tool.
            request_id: id of the call.
            name: plain file name; None: made from the content, so that equal content is kept once.
            type: word for the evidence list; None: from the media type.

        Raises:
            UsageError: `name` is no plain file name, or the place is, through a link, outside the directory.
            OSError: the file cannot be written.
        """
        hexadecimal = hashlib.sha256(data).hexdigest()
        path = self.path_for(tool, request_id, name or f"{hexadecimal[:16]}{_suffix(suffix)}")
        path = self._write(path, data, hexadecimal)
        return Evidence(
            type or evidence_type(media_type), self.ref(path), f"sha256:{hexadecimal}", media_type, len(data)
        )

    def keeper(
        self, tool: str, request_id: str, redactor: Redactor | None = None
    ) -> Callable[[bytes, str, str], Evidence]:
        """Answer `keep` for one call, in the form that `shape(keep=...)` takes; with a redactor, secrets are masked in files, too."""
        keep = partial(self.keep, tool=tool, request_id=request_id)
        if redactor is None:
            return keep
        return lambda data, media_type, suffix: keep(masked(data, media_type, redactor), media_type, suffix)

    def reference(self, path: str | os.PathLike[str], *, type: str | None = None) -> Evidence:
        """Answer the reference of a file that lies in the directory already (a screenshot that a tool wrote there).

        Args:
            path: absolute, or relative to the directory.
            type: word for the evidence list; None: from the file name's ending.

        Raises:
            UsageError: the path is not below the directory.
            OSError: there is no such file, or it cannot be read.
        """
        ref = self.ref(path)
        media_type = media_type_of_name(ref)
        with (self.root / ref).open("rb") as file:
            digest, size = _digest(file)
        return Evidence(type or evidence_type(media_type), ref, digest, media_type, size)

    def read(self, evidence: Evidence) -> bytes:
        """Answer the content that a reference names.

        Raises:
            UsageError: the reference leads outside the directory.
            OSError: the file is gone or cannot be read.
        """
        return (self.root / self.ref(evidence.ref)).read_bytes()

    def is_unchanged(self, evidence: Evidence) -> bool:
        """Answer whether the file is there and still has the digest of its reference (True without a digest if it is there).

        Raises:
            UsageError: the reference leads outside the directory.
        """
        path = self.root / self.ref(evidence.ref)
        try:
            with path.open("rb") as file:
                return evidence.digest is None or _digest(file)[0] == evidence.digest
        except OSError:
            return False

    def _write(self, path: Path, data: bytes, hexadecimal: str) -> Path:
        folder = path.parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.ref(path)
        if _holds_other(path, hexadecimal):
            path = folder / f"{path.stem}.{hexadecimal[:16]}{path.suffix}"
        handle, temporary = tempfile.mkstemp(prefix=".keep-", dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(temporary).replace(path)  # a link at the target is replaced, not followed
        except BaseException:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
            raise
        return path


def _holds_other(path: Path, hexadecimal: str) -> bool:
    try:
        with path.open("rb") as file:
            return _digest(file)[0] != f"sha256:{hexadecimal}"
    except FileNotFoundError:
        return False


def _digest(file: BinaryIO) -> tuple[str, int]:
    total, size = hashlib.sha256(), 0
    while chunk := file.read(_CHUNK):
        total.update(chunk)
        size += len(chunk)
    return f"sha256:{total.hexdigest()}", size


def _part(text: str) -> str:
    """Encode any text as one path part; different texts give different parts."""
    part = quote(text, safe="", errors="surrogatepass")
    if part[:1] in ("", ".") or part.split(".", 1)[0].lower() in _DEVICE_NAMES:
        part = f"%{ord(part[0]):02X}{part[1:]}" if part else "%"
    if len(part) > _LONGEST_PART:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        part = f"{part[: _LONGEST_PART - 34].rstrip('%')}%%{digest[:32]}"
    return part


def _plain(name: str) -> str:
    """Pass one plain file name; refuse everything else."""
    is_plain = (
        name.isprintable()
        and name.strip(" .") != ""
        and not any(character in name for character in '/\\:*?"<>|')
        and not name.startswith((".", "~"))
        and not name.endswith((".", " "))
        and name.split(".", 1)[0].lower() not in _DEVICE_NAMES
        and len(name.encode("utf-8", "replace")) <= _LONGEST_PART
    )
    if not is_plain:
        raise UsageError(
            f"evidence name {name[:80]!r} is not a plain file name of at most {_LONGEST_PART} bytes; "
            "use letters, digits, '-', '_' and one ending, without folders"
        )
    return name


def _suffix(suffix: str) -> str:
    return suffix if suffix[:1] == "." and suffix[1:].isalnum() and suffix.isascii() and len(suffix) <= 16 else ""
