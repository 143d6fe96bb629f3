"""What bytes are: media types by their first bytes or by a file name, and the evidence word for each."""

from __future__ import annotations

from typing import Final

__all__ = ["BINARY", "evidence_type", "media_type_of", "media_type_of_name", "suffix_of"]

BINARY: Final = "application/octet-stream"

_FIRST_BYTES: Final[tuple[tuple[bytes, str], ...]] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"\x1aE\xdf\xa3", "video/webm"),
)

_RIFF: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}

_SUFFIXES: Final[dict[str, str]] = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".bmp": "image/bmp",
    ".webp": "image/webp",
    ".svg": "image/svg+xml",
    ".pdf": "application/pdf",
    ".zip": "application/zip",
    ".gz": "application/gzip",
    ".json": "application/json",
    ".har": "application/json",
    ".csv": "text/csv",
    ".txt": "text/plain",
    ".log": "text/plain",
    ".html": "text/html",
    ".xml": "application/xml",
    ".wav": "audio/wav",
    ".mp3": "audio/mpeg",
    ".webm": "video/webm",
    ".mp4": "video/mp4",
}

_WORDS: Final[tuple[tuple[str, str], ...]] = (
    ("image/", "image"),
    ("text/csv", "table"),
    ("text/", "text"),
    ("application/json", "result"),
)


def media_type_of(data: bytes) -> str:
    """Answer the media type that the first bytes show; `application/octet-stream` if they show none."""
    for start, media_type in _FIRST_BYTES:
        if data.startswith(start):
            return media_type
    if data[:4] == b"RIFF":
        return _RIFF.get(bytes(data[8:12]), BINARY)
    return "video/mp4" if data[4:8] == b"ftyp" else BINARY


def media_type_of_name(name: str) -> str:
    """Answer the media type that a file name's ending shows; `application/octet-stream` if it shows none."""
    dot = name.rfind(".")
    return _SUFFIXES.get(name[dot:].lower(), BINARY) if dot >= 0 else BINARY


def suffix_of(media_type: str) -> str:
    """Answer a file name's ending for a media type, with its dot; `.bin` for an unknown one."""
    essence = media_type.partition(";")[0].strip().lower()
    for suffix, known in _SUFFIXES.items():
        if known == essence:
            return suffix
    return ".bin"


def evidence_type(media_type: str) -> str:
    """Answer the evidence word for a media type: `image`, `table`, `text`, `result` or `artifact`."""
    for start, word in _WORDS:
        if media_type.startswith(start):
            return word
    return "artifact"
