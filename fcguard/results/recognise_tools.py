"""Results of MCP tools, as the SDKs' objects or as they stand on the wire."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

from fcguard.model.outcome import Signal
from fcguard.results.reading import Binary, Recognised, read

__all__ = ["mcp_result", "mcp_wire_result"]

_WIRE_KEYS: Final = frozenset({"content", "isError", "structuredContent", "_meta", "resultType"})
_BLOCK_TYPES: Final = frozenset({"text", "image", "audio", "resource", "resource_link"})
_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "media_type": ("mime_type", "mimeType"),
    "structured": ("structured_content", "structuredContent"),
    "is_error": ("is_error", "isError"),
}


def mcp_result(value: Any) -> Recognised | None:
    """Put a tool result object in plain terms; None unless it has a list of content and a boolean `isError`.

    Data: the structured content where there is some; else the text of a single text block; else the list of blocks. Images and
    other binary blocks are kept beside structured content.
    """
    is_error = _field(value, "is_error")
    content = read(value, "content") if isinstance(is_error, bool) else None
    if not isinstance(content, list):
        return None
    blocks = [_block(block) for block in content]
    return _result(blocks, _field(value, "structured"), is_error)


def mcp_wire_result(value: dict[str, Any]) -> Recognised | None:
    """Put a decoded `tools/call` result in plain terms; None unless the object is exactly of that form."""
    is_error, content = value.get("isError"), value.get("content")
    if type(is_error) is not bool or type(content) is not list or not _WIRE_KEYS.issuperset(value):
        return None
    if not all(type(block) is dict and block.get("type") in _BLOCK_TYPES for block in content):
        return None
    return _result([_block(block) for block in content], value.get("structuredContent"), is_error)


def _result(blocks: list[dict[str, Any]], structured: Any, is_error: bool) -> Recognised:
    texts = [block["text"] for block in blocks if block.get("type") == "text" and isinstance(block.get("text"), str)]
    others = [block for block in blocks if block.get("type") != "text"]
    data: Any
    if structured is not None:
        data = {"structured": structured, "content": others} if others else structured
    elif len(texts) == 1 == len(blocks):
        data = texts[0]
    else:
        data = blocks
    failure = Signal("mcp", "\n".join(texts)[:2000].strip()) if is_error else None
    return Recognised("mcp", data, failure)


def _field(value: Any, name: str) -> Any:
    for spelling in _FIELDS[name]:
        found = value.get(spelling) if isinstance(value, dict) else read(value, spelling)
        if found is not None:
            return found
    return None


def _block(block: Any) -> dict[str, Any]:
    get = block.get if isinstance(block, dict) else lambda name: read(block, name)
    kind = get("type")
    shown: dict[str, Any] = {"type": kind}
    if kind == "text":
        return {**shown, "text": get("text")}
    if kind in ("image", "audio"):
        return {**shown, "data": _binary(get("data"), _field(block, "media_type"))}
    if kind == "resource":
        resource = get("resource")
        inner = resource.get if isinstance(resource, dict) else lambda name: read(resource, name)
        shown["uri"] = _text(inner("uri"))
        text, blob = inner("text"), inner("blob")
        return (
            {**shown, "text": text}
            if blob is None
            else {**shown, "data": _binary(blob, _field(resource, "media_type"))}
        )
    if kind == "resource_link":
        return {**shown, "uri": _text(get("uri")), "name": get("name"), "media_type": _field(block, "media_type")}
    return shown


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _binary(data: Any, media_type: Any) -> Any:
    try:
        content = data if isinstance(data, bytes) else base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError, TypeError):
        return data
    return Binary(content, media_type if isinstance(media_type, str) else None)
