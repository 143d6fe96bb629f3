"""Mask the secrets of what is about to become a file: JSON by its fields, CSV by its columns, any other text by its words."""

from __future__ import annotations

import csv
import io
import json

from fcguard.model.secrets import MASK, Redactor
from fcguard.results.limits import dump

__all__ = ["masked"]


def masked(data: bytes, media_type: str, redactor: Redactor) -> bytes:
    """Answer the content of an artifact with its secrets masked; the same bytes if there are none, or if it is no text.

    Not promised: secrets inside of images, archives and other binary formats.
    """
    kind = media_type.partition(";")[0].strip().lower()
    is_json = kind == "application/json" or kind.endswith("+json")
    if not (is_json or kind.startswith("text/") or kind.endswith(("xml", "x-ndjson", "yaml", "x-www-form-urlencoded"))):
        return data
    text = data.decode("utf-8", "surrogateescape")
    if is_json:
        try:
            value = json.loads(text)
            changed = redactor.value(value)
            return data if changed is value else dump(changed).encode("utf-8", "backslashreplace")
        except (ValueError, RecursionError):  # cut, or several values: a text like any other
            pass
    if kind == "text/csv":
        text = _masked_columns(text, redactor)
    return redactor.text(text).encode("utf-8", "surrogateescape")


def _masked_columns(text: str, redactor: Redactor) -> str:
    """Mask the columns whose first row has a secret name."""
    try:
        rows = list(csv.reader(io.StringIO(text, newline="")))
    except csv.Error:
        return text
    secret = [at for at, name in enumerate(rows[0] if rows else ()) if redactor.is_secret(name)]
    if not secret:
        return text
    for row in rows[1:]:
        for at in secret:
            if at < len(row) and row[at]:
                row[at] = MASK
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\r\n" if "\r\n" in text else "\n").writerows(rows)
    return out.getvalue()
