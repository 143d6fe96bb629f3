"""httpx transports that check every hop, redirects included, and connect only to addresses that were checked.

Needs the extra `http`. A rule sees the URL that the model wrote; what a redirect or a name leads to is seen here.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from ipaddress import ip_address
from socket import SOCK_STREAM, getaddrinfo
from typing import Any, TypedDict, Unpack

from fcguard.errors import MissingExtraError
from fcguard.model.call_info import CURRENT
from fcguard.model.failure import ErrorType, Violation
from fcguard.rules.addresses import Address, canonical_host
from fcguard.rules.host_policy import HostPolicy

try:
    import anyio
    import httpcore
    import httpx
except ImportError as missing:  # pragma: no cover - tested in a process without the package
    raise MissingExtraError(missing.name or "httpx", "http") from None

__all__ = ["AsyncGuardedTransport", "GuardedTransport", "HostRefused"]


class HostOptions(TypedDict, total=False):
    """The options of `fcguard.rules.host_rule`, with the same meaning and defaults."""

    allow_subdomains: bool
    allow_private: bool | Iterable[str]
    schemes: Iterable[str]
    ports: Iterable[int] | None


class HostRefused(httpx.TransportError):
    """A request was not sent, for its host or the address behind it is not allowed.

    Nothing reached the refused host. After a redirect, the hop before it was sent and answered.

    Attributes:
        violation: why, as a rule would say it.
    """

    def __init__(self, message: str) -> None:
        self.violation = Violation(ErrorType.PARAM_INVALID, message, "fix_arguments")
        super().__init__(message)


class _Gate:
    """The checks of one transport: the URL of each hop, and each address that a name resolves to."""

    def __init__(self, allow: Iterable[str] | None, options: HostOptions) -> None:
        self.policy = HostPolicy(allow, owner="GuardedTransport", **options)

    def check_url(self, url: httpx.URL) -> None:
        reason = self.policy.why_not_url(str(url), self._base_urls())
        if reason is not None:
            raise HostRefused(f"the request was not sent: its URL {reason}")

    def choose(self, host: str, port: int, resolved: Iterable[Any]) -> list[str]:
        """Answer the addresses to connect to, in order; one that is not allowed refuses them all."""
        addresses = list(dict.fromkeys(ip_address(entry[4][0].partition("%")[0]) for entry in resolved))
        for address in addresses:
            reason = self.policy.why_not_resolved(_canonical(host), port, address, self._base_urls())
            if reason is not None:
                raise HostRefused(f"the request was not sent: {host!r} {reason}")
        if not addresses:
            raise httpcore.ConnectError(f"{host!r} has no address")
        return list(map(str, addresses))

    def _base_urls(self) -> tuple[str, ...]:
        info = CURRENT.get() if self.policy.allow is None else None
        environment = info.environment if info is not None else None
        return environment.base_urls if environment is not None else ()


def _canonical(host: str) -> str | Address:
    return canonical_host(f"[{host}]" if ":" in host else host)


class _CheckedBackend(httpcore.NetworkBackend):
    """Resolves a name once, has the addresses checked, and connects to those."""

    def __init__(self, gate: _Gate, resolve: Callable[..., Any]) -> None:
        self._gate, self._resolve, self._inner = gate, resolve, httpcore.SyncBackend()

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *args: Any, **options: Any
    ) -> httpcore.NetworkStream:
        try:
            resolved = self._resolve(host, port, type=SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"{host!r} cannot be resolved: {error}") from error
        *earlier, last = self._gate.choose(host, port, resolved)
        for address in earlier:
            with contextlib.suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                return self._inner.connect_tcp(address, port, timeout, *args, **options)
        return self._inner.connect_tcp(last, port, timeout, *args, **options)


class _AsyncCheckedBackend(httpcore.AsyncNetworkBackend):
    """The same on an event loop."""

    def __init__(self, gate: _Gate, resolve: Callable[..., Any]) -> None:
        self._gate, self._resolve, self._inner = gate, resolve, httpcore.AnyIOBackend()

    async def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *args: Any, **options: Any
    ) -> httpcore.AsyncNetworkStream:
        try:
            resolved = await self._resolve(host, port, type=SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"{host!r} cannot be resolved: {error}") from error
        *earlier, last = self._gate.choose(host, port, resolved)
        for address in earlier:
            with contextlib.suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                return await self._inner.connect_tcp(address, port, timeout, *args, **options)
        return await self._inner.connect_tcp(last, port, timeout, *args, **options)


@contextlib.contextmanager
def _as_httpx_errors() -> Iterator[None]:
    """Raise the errors of httpcore as those of httpx, which have the same names."""
    try:
        yield
    except (
        httpcore.TimeoutException,
        httpcore.NetworkError,
        httpcore.ProtocolError,
        httpcore.UnsupportedProtocol,
    ) as error:
        raise getattr(httpx, type(error).__name__, httpx.TransportError)(str(error)) from error


class _Body(httpx.SyncByteStream):
    def __init__(self, parts: Any) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[bytes]:
        with _as_httpx_errors():
            yield from self._parts

    def close(self) -> None:
        self._parts.close()


class _AsyncBody(httpx.AsyncByteStream):
    def __init__(self, parts: Any) -> None:
        self._parts: AsyncIterable[bytes] = parts

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_httpx_errors():
            async for part in self._parts:
                yield part

    async def aclose(self) -> None:
        await self._parts.aclose()  # type: ignore[attr-defined]


def _to_httpcore(request: httpx.Request) -> httpcore.Request:
    url = request.url
    target = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
    return httpcore.Request(
        request.method, target, headers=request.headers.raw, content=request.stream, extensions=dict(request.extensions)
    )


class GuardedTransport(httpx.BaseTransport):
    """A transport for `httpx.Client(transport=...)` that reaches allowed hosts only.

    httpx sends each redirect through its transport, so that every hop is checked like the first. A name is resolved once,
    all its addresses are checked, and the connection goes to those, so that a second answer of the name server changes
    nothing. Proxies of the environment are not used.
    """

    def __init__(
        self,
        allow: Iterable[str] | None = None,
        *,
        inner: httpx.BaseTransport | None = None,
        verify: Any = True,
        http2: bool = False,
        resolve: Callable[..., Any] = getaddrinfo,
        **options: Unpack[HostOptions],
    ) -> None:
        """Build the transport.

        Args:
            allow: as in `fcguard.rules.host_rule`; None: `environment.base_urls` of the call that runs, nothing outside one.
            inner: sends the requests instead of an own pool. Then the URL of each hop is checked, but not the address
                behind a name, which only `inner` sees.
            verify: TLS verification, as in `httpx.Client`.
            http2: whether HTTP/2 is offered (needs the package `h2`).
            resolve: looks a name up, with the signature of `socket.getaddrinfo`.
            options: `allow_subdomains`, `allow_private`, `schemes`, `ports`, as in `fcguard.rules.host_rule`.

        Raises:
            ConfigurationError: an entry or option is none.
        """
        self._gate = _Gate(allow, options)
        self._inner = inner
        self._pool = httpcore.ConnectionPool(
            ssl_context=httpx.create_ssl_context(verify=verify) if inner is None else None,
            http2=http2,
            max_connections=100,
            max_keepalive_connections=20,
            keepalive_expiry=5.0,
            network_backend=_CheckedBackend(self._gate, resolve),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one hop.

        Raises:
            HostRefused: its host, or an address behind it, is not allowed; nothing was sent to it.
        """
        self._gate.check_url(request.url)
        if self._inner is not None:
            return self._inner.handle_request(request)
        with _as_httpx_errors():
            response = self._pool.handle_request(_to_httpcore(request))
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=_Body(response.stream),
            extensions=dict(response.extensions),
        )

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()
        if self._inner is not None:
            self._inner.close()


class AsyncGuardedTransport(httpx.AsyncBaseTransport):
    """The same for `httpx.AsyncClient(transport=...)`."""

    def __init__(
        self,
        allow: Iterable[str] | None = None,
        *,
        inner: httpx.AsyncBaseTransport | None = None,
        verify: Any = True,
        http2: bool = False,
        resolve: Callable[..., Any] = anyio.getaddrinfo,
        **options: Unpack[HostOptions],
    ) -> None:
        """Build the transport; the arguments are those of `GuardedTransport`, with an async `resolve`."""
        self._gate = _Gate(allow, options)
        self._inner = inner
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=httpx.create_ssl_context(verify=verify) if inner is None else None,
            http2=http2,
            max_connections=100,
            max_keepalive_connections=20,
            keepalive_expiry=5.0,
            network_backend=_AsyncCheckedBackend(self._gate, resolve),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one hop.

        Raises:
            HostRefused: its host, or an address behind it, is not allowed; nothing was sent to it.
        """
        self._gate.check_url(request.url)
        if self._inner is not None:
            return await self._inner.handle_async_request(request)
        with _as_httpx_errors():
            response = await self._pool.handle_async_request(_to_httpcore(request))
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=_AsyncBody(response.stream),
            extensions=dict(response.extensions),
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._pool.aclose()
        if self._inner is not None:
            await self._inner.aclose()
