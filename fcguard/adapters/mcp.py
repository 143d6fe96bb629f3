"""Model Context Protocol: read a `tools/call` request and write the result that answers it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fcguard.adapters import wire
from fcguard.adapters.base import AsyncGuardLike, GuardLike, ResultLike, Turn, never_raising, paired, text_for_model
from fcguard.errors import UsageError
from fcguard.model.intent import Intent
from fcguard.telemetry.propagate import continued

__all__ = ["aanswer", "answer", "read", "respond", "write"]

_READ = frozenset({"name", "arguments", "_meta", "meta"})
_META_NAMES = {"progress_token": "progressToken"}
"""Names that the Python SDK gives to fields of `_meta` -> their names on the wire."""


@never_raising("mcp")
def read(request: Any) -> Turn:
    """Read a `tools/call` request.

    Args:
        request: a JSON-RPC request or its `params` alone, as a dict or the SDK's own object. Anything else is read as
            far as it goes; what cannot be read (other methods, a JSON-RPC batch, a request to run as a task) is named
            in `Turn.unread`.

    Returns:
        A turn with one intent, or with none if this is no tool call. `Turn.meta` is the request's `_meta` in wire
        names, `Turn.id` the JSON-RPC id in its own type.
    """
    request = _unwrapped(request)
    method, params = wire.field(request, "method"), wire.field(request, "params")
    rpc_id = wire.identity(wire.field(request, "id"))
    if method not in (None, "tools/call"):
        return Turn(format="mcp", unread=(f"method: {wire.label(method)}",), id=rpc_id)
    if method is None and params is None:
        params = request
    name, arguments = wire.field(params, "name"), wire.field(params, "arguments")
    if method is None and name is None and arguments is None:
        return Turn(format="mcp", unread=(f"request: {wire.label(params)}",), id=rpc_id)
    copied = wire.plain_object(params)
    unread = [f"params: {wire.label(key)}" for key in wire.present(copied, *_READ)]
    if not wire.is_object(params):  # a call that names no tool is still a call: it is refused and answered
        unread.append(f"params: {wire.label(params)}")
    intent = Intent(
        tool=wire.text(name),
        arguments=wire.arguments_of(arguments),
        call_id=wire.given_id(rpc_id),
    )
    return Turn(
        format="mcp",
        intents=(intent,),
        unread=tuple(unread),
        call_ids=(None,),
        meta=_meta(copied),
        id=rpc_id,
    )


def write(turn: Turn, results: Iterable[ResultLike], *, max_chars: int | None = None) -> list[dict[str, Any]]:
    """Write the `CallToolResult` of a turn, in wire names.

    Args:
        turn: what `read` answered.
        results: one result per intent.
        max_chars: longest text, in characters; None: the result's own default. `structuredContent` is not cut.

    Returns:
        A list with one result; an empty list if the request was no tool call. A refused or failed call is a result with
        `isError`, as the protocol wants it, so that the model reads why. The data of a success is in
        `structuredContent` too, as `{"result": data}` if it is not an object: older clients take nothing else there.
        `_meta` holds the request id.

    Raises:
        UsageError: the turn is not MCP's, or there is not exactly one result per call.
    """
    return [_tool_result(result, max_chars) for _, _, result in paired(turn, results, "mcp")]


def respond(turn: Turn, result: ResultLike, *, max_chars: int | None = None) -> dict[str, Any]:
    """Write the whole JSON-RPC response, for a server without an SDK.

    Args:
        turn: what `read` answered.
        result: the call's result.
        max_chars: see `write`.

    Raises:
        UsageError: the request has no id (a notification is not answered), or was no tool call.
    """
    if turn.id is None:
        raise UsageError(
            "this request has no JSON-RPC id, so that it cannot be answered; use write() for the result alone"
        )
    (written,) = write(turn, [result], max_chars=max_chars)
    return {"jsonrpc": "2.0", "id": turn.id, "result": written}


def answer(guard: GuardLike, request: Any, *, max_chars: int | None = None, **options: Any) -> list[dict[str, Any]]:
    """Run a `tools/call` through the guard and answer its `CallToolResult`.

    The call joins the trace that the request's `_meta` names, unless a span is current already.

    Args:
        guard: a `Guard`.
        request: see `read`.
        max_chars: see `write`.
        **options: handed to `guard.run_turn`.

    Returns:
        A list with one result; an empty list if the request was no tool call.
    """
    turn = read(request)
    with continued(turn.meta, unless_traced=True):
        results = guard.run_turn(turn.intents, **options)
    return write(turn, results, max_chars=max_chars)


async def aanswer(
    guard: AsyncGuardLike, request: Any, *, max_chars: int | None = None, **options: Any
) -> list[dict[str, Any]]:
    """Run a `tools/call` through the guard, in async code; see `answer`."""
    turn = read(request)
    with continued(turn.meta, unless_traced=True):
        results = await guard.arun_turn(turn.intents, **options)
    return write(turn, results, max_chars=max_chars)


def _unwrapped(request: Any) -> Any:
    """Take the request out of the SDK's envelopes (a session message, a root model)."""
    for name in ("message", "root"):
        inner = wire.field(request, name)
        if inner is not None and wire.field(request, "method") is None and wire.field(request, "name") is None:
            request = inner
    return request


def _meta(params: dict[str, Any]) -> dict[str, Any]:
    meta = params.get("_meta", params.get("meta"))
    if not isinstance(meta, dict):
        return {}
    return {_META_NAMES.get(name, name): value for name, value in wire.present(meta).items()}


def _tool_result(result: ResultLike, max_chars: int | None) -> dict[str, Any]:
    written: dict[str, Any] = {
        "content": [{"type": "text", "text": text_for_model(result, max_chars)}],
        "isError": not result.success,
        "_meta": {"fcguard/request_id": result.request_id},
    }
    if result.success and result.data is not None:
        data = wire.plain(result.data)
        written["structuredContent"] = data if isinstance(data, dict) else {"result": data}
    return written
