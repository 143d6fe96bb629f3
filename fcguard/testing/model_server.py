"""A model endpoint that answers from a script, over real HTTP, in the protocols of OpenAI and Anthropic."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, TypeAlias

from fcguard.errors import UsageError
from fcguard.testing.conversation import CHECKS

__all__ = ["Reply", "ScriptedModelServer", "ScriptedRequest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the model answers to one request; the server puts it into the protocol that was asked.

    Attributes:
        text: what the model says.
        calls: the tools it calls, as `(name, arguments)`; arguments are an object, or text that is sent as it is.
        is_cut_off: whether the answer ends at the length limit.
        status: HTTP status; anything but 200 answers with an error object whose message is `text`.
        tokens: prompt and completion tokens to report.
    """

    text: str | None = None
    calls: Sequence[tuple[str, Mapping[str, Any] | str]] = ()
    is_cut_off: bool = False
    status: int = 200
    tokens: tuple[int, int] = (10, 5)


@dataclass(frozen=True, slots=True)
class ScriptedRequest:
    """One request as it arrived. Headers are not kept: they hold the key.

    Attributes:
        path: the path.
        body: the JSON body.
    """

    path: str
    body: dict[str, Any]


Step: TypeAlias = Reply | str | Mapping[str, Any]
Script: TypeAlias = Iterable[Step | Callable[[ScriptedRequest], Step]]


class ScriptedModelServer:
    """Serve a script to any SDK that takes a base address.

    ::

        with ScriptedModelServer([Reply(calls=[("query_order", {"order_id": "A1"})]), "The order is paid."]) as server:
            client = openai.OpenAI(base_url=server.url, api_key="none", max_retries=0)

    It listens on 127.0.0.1 on a free port, in a daemon thread, from `with` (or `start()`) to its end (or `close()`). It
    neither streams nor checks keys. Of a request it checks that it is JSON, and, as providers do, that each tool result
    answers a call of the model in the same conversation; a request that fails is answered 400, and uses up nothing.

    Attributes:
        requests: what was asked, in order.
    """

    def __init__(self, script: Script = ()) -> None:
        """Create the server; it listens from `start()` on.

        Args:
            script: one entry per request, in order: a `Reply`; text, for a reply that only says it; a mapping, sent as
                the body as it is; or a callable that is given the `ScriptedRequest` and answers one of these. May be
                endless. When it is used up, further requests get status 400, which SDKs do not retry.
        """
        self.requests: list[ScriptedRequest] = []
        self._script = iter(script)
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Base address for OpenAI clients, `http://127.0.0.1:PORT/v1`.

        Raises:
            UsageError: the server is not running.
        """
        return f"{self.root_url}/v1"

    @property
    def root_url(self) -> str:
        """Base address for Anthropic clients, which add `/v1` themselves.

        Raises:
            UsageError: the server is not running.
        """
        if self._server is None:
            raise UsageError("the model server is not running; use it in a with block, or call start()")
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> ScriptedModelServer:
        """Listen; does nothing if the server already listens."""
        if self._server is None:
            server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self._respond))
            server.daemon_threads = True
            self._thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
            self._thread.start()
            self._server = server
        return self

    def close(self) -> None:
        """Stop listening; does nothing if the server does not listen."""
        server, thread = self._server, self._thread
        self._server = self._thread = None
        if server is not None and thread is not None:
            server.shutdown()
            server.server_close()
            thread.join()

    def __enter__(self) -> ScriptedModelServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _respond(self, path: str, raw: bytes) -> tuple[int, Any]:
        """Answer status and body for one request; one at a time, so that the script keeps its order."""
        ending = next((ending for ending in _RENDERERS if path.endswith(ending)), None)
        if ending is None:
            return 404, _error(f"no endpoint {path!r}; known endings: {', '.join(_RENDERERS)}")
        try:
            body = json.loads(raw)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            return 400, _error("the body is not a JSON object")
        if body.get("stream"):
            return 400, _error("this server does not stream; leave 'stream' out")
        wrong = CHECKS[ending](body)
        if wrong is not None:
            return 400, _error(wrong)
        with self._lock:
            request = ScriptedRequest(path, body)
            self.requests.append(request)
            number = len(self.requests)
            step = next(self._script, _NOTHING)
            if callable(step):
                step = step(request)
        if isinstance(step, str):
            step = Reply(text=step)
        if not isinstance(step, Reply):
            return 200, step
        if step.status != 200:
            return step.status, _error(step.text or "scripted error")
        return 200, _RENDERERS[ending](step, number, body.get("model"))


_NOTHING: Final = Reply(status=400, text="the script has no more replies")


def _error(message: str) -> dict[str, Any]:
    """Build an error object that both families of SDKs read."""
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}


def _text_of(arguments: Mapping[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(dict(arguments), ensure_ascii=False)


def _chat(reply: Reply, number: int, model: Any) -> dict[str, Any]:
    calls = [
        {
            "id": f"call_{number}_{position}",
            "type": "function",
            "function": {"name": name, "arguments": _text_of(arguments)},
        }
        for position, (name, arguments) in enumerate(reply.calls)
    ]
    message = {"role": "assistant", "content": reply.text, **({"tool_calls": calls} if calls else {})}
    reason = "length" if reply.is_cut_off else "tool_calls" if calls else "stop"
    prompt, completion = reply.tokens
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion},
    }


def _responses(reply: Reply, number: int, model: Any) -> dict[str, Any]:
    status = "incomplete" if reply.is_cut_off else "completed"
    output: list[dict[str, Any]] = []
    if reply.text is not None:
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        output.append(
            {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": status, "content": content}
        )
    for position, (name, arguments) in enumerate(reply.calls):
        ids = {"id": f"fc_{number}_{position}", "call_id": f"call_{number}_{position}", "status": status}
        output.append({"type": "function_call", **ids, "name": name, "arguments": _text_of(arguments)})
    prompt, completion = reply.tokens
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 0,
        "model": model,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if reply.is_cut_off else None,
        "output": output,
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": {"input_tokens": prompt, "output_tokens": completion, "total_tokens": prompt + completion, **details},
    }


def _messages(reply: Reply, number: int, model: Any) -> dict[str, Any]:
    content: list[dict[str, Any]] = [] if reply.text is None else [{"type": "text", "text": reply.text}]
    for position, (name, arguments) in enumerate(reply.calls):
        given = arguments if isinstance(arguments, str) else dict(arguments)
        content.append({"type": "tool_use", "id": f"toolu_{number}_{position}", "name": name, "input": given})
    reason = "max_tokens" if reply.is_cut_off else "tool_use" if reply.calls else "end_turn"
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {"input_tokens": reply.tokens[0], "output_tokens": reply.tokens[1]},
    }


_RENDERERS: Final[Mapping[str, Callable[[Reply, int, Any], dict[str, Any]]]] = {
    "/chat/completions": _chat,
    "/responses": _responses,
    "/messages": _messages,
}
"""Ending of the path -> how a reply looks in that protocol."""


def _handler(respond: Callable[[str, bytes], tuple[int, Any]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                status, body = respond(self.path.partition("?")[0], raw)
                payload = json.dumps(body, default=dict).encode()
            except Exception as error:
                status, payload = 400, json.dumps(_error(f"the script raised {error!r}")).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, format: str, *args: Any) -> None:
            """Stay silent; `requests` is the log."""

    return Handler
