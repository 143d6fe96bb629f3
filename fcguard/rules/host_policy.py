"""Which URLs and addresses may be reached: the policy behind the `hosts` rule and the guarded transports."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final

from fcguard.errors import ConfigurationError
from fcguard.rules.addresses import (
    METADATA_NAMES,
    Address,
    HostFault,
    Network,
    canonical_host,
    embedded,
    is_metadata,
    is_private,
    is_public_name,
    private_name,
    to_network,
    why_not_public,
)
from fcguard.rules.globs import is_glob

__all__ = ["HostPolicy", "Target", "split_url"]

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]+)(.*)", re.DOTALL)
_AUTHORITY: Final = re.compile(r"(\[[^\]]*\]|[^:\[\]]+)(?::([0-9]{1,5}))?")
_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21}
_MAX_URL: Final = 8192
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"})
_JOINERS: Final = "\u200c\u200d"
"""Letters within words of some scripts and within emoji; in a host they are judged with its letters."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a URL leads.

    Attributes:
        scheme: in lower case.
        host: an address, or a name in lower-case ASCII.
        port: the written port, else the default of the scheme, else 0.
    """

    scheme: str
    host: str | Address
    port: int


@dataclass(frozen=True, slots=True)
class _Entry:
    """One line of an allow-list."""

    host: str | Address | Network
    scheme: str | None
    port: int | None


def split_url(text: Any) -> Target:
    """Answer where a URL leads, if every client reads it alike.

    Raises:
        HostFault: it is not an absolute URL with a plain host, or parsers disagree about it.
    """
    if not isinstance(text, str):
        raise HostFault("must be one URL, a text such as 'https://host/path'")
    if len(text) > _MAX_URL:
        raise HostFault(f"is longer than {_MAX_URL} characters")
    if not (text.isascii() and text.isprintable() and " " not in text) and any(
        unicodedata.category(c) in _HIDDEN for c in text if c not in _JOINERS
    ):
        raise HostFault("holds spaces, control or invisible characters; percent-encode them in the path")
    if "\\" in text:
        raise HostFault("holds a backslash, which clients read in different ways; percent-encode it in the path")
    match = _URL.fullmatch(text)
    if match is None:
        raise HostFault("is not an absolute URL; write 'https://host/path'")
    scheme, authority, rest = match[1].lower(), match[2], match[3]
    if "@" in authority or (rest[:1] in ("?", "#") and "@" in rest):
        raise HostFault("holds user-info ('@') beside the host; write the host alone")
    if "%" in authority:
        raise HostFault("percent-encodes the host; write it plainly")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise HostFault("has no plain 'host' or 'host:port' after '//'")
    port = _PORTS.get(scheme, 0) if parts[2] is None else int(parts[2])
    if parts[2] is not None and not 1 <= port <= 65535:
        raise HostFault("has a port outside 1 to 65535")
    return Target(scheme, canonical_host(parts[1]), port)


class HostPolicy:
    """A frozen allow-list of hosts with its options.

    Attributes:
        allow: the entries as they were written; None: the task's `environment.base_urls`.
    """

    __slots__ = ("_entries", "_networks", "_ports", "_private", "_schemes", "_subdomains", "allow")

    def __init__(
        self,
        allow: Iterable[str] | None = None,
        *,
        allow_subdomains: bool = False,
        allow_private: bool | Iterable[str] = False,
        schemes: Iterable[str] = ("https", "http"),
        ports: Iterable[int] | None = None,
        owner: str = "hosts",
    ) -> None:
        """Compile the policy; see `fcguard.rules.host_rule` for the options.

        Raises:
            ConfigurationError: an entry, a scheme, a network or a port is none.
        """
        if isinstance(allow, str):
            raise ConfigurationError(f"{owner}: allow={allow!r} is one text; write [{allow!r}]")
        self.allow = None if allow is None else tuple(allow)
        self._entries = None if self.allow is None else entries(self.allow)
        self._subdomains = allow_subdomains
        self._private = allow_private is True
        self._networks = _networks(() if isinstance(allow_private, bool) else allow_private, owner)
        self._schemes = _schemes(schemes, owner)
        self._ports = _ports(ports, owner)

    def why_not_url(self, url: Any, base_urls: tuple[str, ...] = ()) -> str | None:
        """Answer why a URL may not be reached; None if it may.

        Args:
            url: the value to judge.
            base_urls: the environment's allowed hosts, used where the policy has no list of its own.
        """
        try:
            target = split_url(url)
        except HostFault as fault:
            return str(fault)
        return self.why_not_target(target, base_urls)

    def why_not_target(self, target: Target, base_urls: tuple[str, ...] = ()) -> str | None:
        """Answer why a host may not be reached under this scheme and port; None if it may."""
        if target.scheme not in self._schemes:
            return f"has the scheme {target.scheme!r}; use one of {', '.join(sorted(self._schemes))}"
        if self._ports is not None and target.port not in self._ports:
            return f"has port {target.port}; use one of {', '.join(map(str, sorted(self._ports)))}"
        allowed = self._entries if self._entries is not None else entries(base_urls)
        host = target.host
        fitting = [entry for entry in allowed if self._fits(entry, target)]
        if any(entry.host == host for entry in fitting):
            return None  # the host of the task wrote exactly this down
        if not fitting:
            shown = ", ".join(self.allow or base_urls) or "none (set environment.base_urls or allow=[...])"
            return f"leads to {str(host)!r}, which is not an allowed host; allowed: {shown}"
        if not isinstance(host, str):
            return self.why_not_address(host)
        if host in METADATA_NAMES:
            return f"leads to {host!r}, a cloud metadata service"
        if not is_public_name(host) and not self._private and all(entry.host == "*" for entry in fitting):
            return f"leads to {host!r}, a private name; write it into the list of allowed hosts if it is meant"
        return None

    def why_not_address(self, address: Address) -> str | None:
        """Answer why an address, as written or as a name resolved, may not be reached; None if it may."""
        if any(one in network for network in self._networks for one in embedded(address)):
            return None
        reason = why_not_public(address)
        if reason is None or (self._private and is_private(address) and not is_metadata(address)):
            return None
        return f"leads to {str(address)!r}, which {reason}"

    def why_not_resolved(
        self, host: str | Address, port: int, address: Address, base_urls: tuple[str, ...] = ()
    ) -> str | None:
        """Answer why an address that a name resolved to may not be connected to; None if it may.

        An allowed public name that leads inside is the mark of rebinding, and is refused unless `allow_private` covers it. A
        host that is itself written out as an address, or as a private name (`localhost`, `db.internal`), may lead inside.
        """
        allowed = self._entries if self._entries is not None else entries(base_urls)
        if any(entry.host == host and entry.port in (None, port) for entry in allowed):
            if host == address:
                return None
            if isinstance(host, str) and private_name(host) and is_private(address) and not is_metadata(address):
                return None
        return self.why_not_address(address)

    def _fits(self, entry: _Entry, target: Target) -> bool:
        if entry.scheme not in (None, target.scheme) or entry.port not in (None, target.port):
            return False
        host, pattern = target.host, entry.host
        if pattern in ("*", host):
            return True
        if not isinstance(host, str):
            return not isinstance(pattern, str | IPv4Address | IPv6Address) and host in pattern
        if not isinstance(pattern, str):
            return False
        return fnmatchcase(host, pattern) if is_glob(pattern) else self._subdomains and host.endswith("." + pattern)

    def __repr__(self) -> str:
        return f"HostPolicy(allow={self.allow!r})"


@lru_cache(maxsize=256)
def entries(allow: tuple[str, ...]) -> tuple[_Entry, ...]:
    """Compile an allow-list.

    Raises:
        ConfigurationError: an entry is no host, base URL, glob or network.
    """
    return tuple(map(_entry, allow))


def _entry(text: str) -> _Entry:
    try:
        if not isinstance(text, str) or not text:
            raise HostFault("is empty or no text")
        if "://" in text:
            target = split_url(text)
            return _Entry(target.host, target.scheme, target.port or None)
        if (network := to_network(text)) is not None and "/" in text:
            return _Entry(network, None, None)
        if is_glob(text) and not text.startswith("["):
            return _Entry(text.lower(), None, None)
        parts = _AUTHORITY.fullmatch(text)
        if parts is None:
            raise HostFault("is neither a host, a base URL, a glob nor a network")
        return _Entry(canonical_host(parts[1]), None, int(parts[2]) if parts[2] else None)
    except HostFault as fault:
        fix = "write 'api.example.com', 'https://api.example.com', '*.example.com', '10.0.0.0/8' or '*'"
        raise ConfigurationError(f"allowed host {text!r} {fault}; {fix}") from None


def _networks(given: Iterable[str], owner: str) -> tuple[Network, ...]:
    texts = (given,) if isinstance(given, str) else tuple(given)
    found = tuple(map(to_network, texts))
    if None in found:
        raise ConfigurationError(
            f"{owner}: allow_private={texts!r}: write True, False or networks such as '10.0.0.0/8'"
        )
    return tuple(network for network in found if network is not None)


def _schemes(given: Iterable[str], owner: str) -> frozenset[str]:
    schemes = frozenset((given,) if isinstance(given, str) else given)
    if not schemes or not all(re.fullmatch(r"[a-z][a-z0-9+.-]*", scheme) for scheme in schemes):
        raise ConfigurationError(f"{owner}: schemes={sorted(schemes)!r}: give lower-case schemes such as 'https'")
    return schemes


def _ports(given: Iterable[int] | None, owner: str) -> frozenset[int] | None:
    if given is None:
        return None
    ports = frozenset(given)
    if not ports or not all(isinstance(port, int) and 1 <= port <= 65535 for port in ports):
        raise ConfigurationError(f"{owner}: ports={sorted(ports)!r}: give numbers from 1 to 65535")
    return ports
