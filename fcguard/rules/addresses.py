"""Hosts as every client reads them: one canonical form, and whether an address is a public one."""

from __future__ import annotations

import re
import unicodedata
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

from fcguard.errors import MissingExtraError
from fcguard.rules.globs import word_set

__all__ = [
    "METADATA_ADDRESSES",
    "METADATA_NAMES",
    "Address",
    "HostFault",
    "Network",
    "canonical_host",
    "is_public_name",
    "private_name",
    "why_not_public",
]

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

METADATA_ADDRESSES: Final = frozenset(
    map(
        ip_address,
        (
            "169.254.169.254",  # AWS, Google, Azure, Oracle, DigitalOcean, OpenStack and others
            "169.254.169.253",  # AWS resolver
            "169.254.169.123",  # AWS time
            "169.254.170.2",  # AWS ECS task credentials
            "169.254.170.23",  # AWS EKS pod identity
            "169.254.42.42",  # Scaleway
            "169.254.0.23",  # Tencent
            "100.100.100.200",  # Alibaba
            "100.96.0.96",  # Volcengine
            "168.63.129.16",  # Azure wire server, in public space
            "192.0.0.192",  # Oracle
            "fd00:ec2::254",  # AWS
            "fd00:ec2::23",  # AWS EKS pod identity
            "fd20:ce::254",  # Google
            "fd00:42::42",  # Scaleway
        ),
    )
)
"""Addresses from which clouds hand out credentials and machine data; refused also where private addresses are allowed."""

METADATA_NAMES: Final = frozenset(
    {
        "metadata",
        "metadata.goog",
        "metadata.google.internal",
        "metadata.azure.internal",
        "metadata.azure.com",
        "metadata.tencentyun.com",
        "metadata.packet.net",
        "metadata.platformequinix.com",
        "instance-data",
        "instance-data.ec2.internal",
        "rancher-metadata",
    }
)
"""Names under which the same services answer."""

_PRIVATE_SUFFIXES: Final = word_set(
    "localhost local internal home.arpa in-addr.arpa ip6.arpa onion "
    # office and home networks, clusters, service discovery, overlay networks
    "localdomain intranet corp home lan private fritz.box svc cluster.local default consul dn42 ts.net"
)
"""Suffixes of names that lead to private addresses, by standard or by habit."""

_ODD_SUFFIXES: Final = word_set(
    "test invalid alt nip.io getnip.io sslip.io xip.io backname.io 1u.ms rbndr.us traefik.me localtest.me local.gd localho.st "
    "lvh.me vcap.me fuf.me lacolhost.com spoofed.burpcollaborator.net"
)
"""Suffixes of names that are no public host's, carry an address, or always answer with that of the own machine."""

_PUBLIC_V6: Final = IPv6Network("2000::/3")
_NOT_PUBLIC_V6: Final = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
_NAT64: Final = tuple(map(IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48")))
_NOT_PUBLIC_V4: Final = tuple(map(IPv4Network, ("192.0.0.0/24", "192.88.99.0/24")))
"""Protocol assignments and 6to4 relays, which versions of Python judge in different ways."""
_CGNAT: Final = IPv4Network("100.64.0.0/10")
_UNIQUE_LOCAL: Final = IPv6Network("fc00::/7")
_RFC1918: Final = tuple(
    map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "169.254.0.0/16"))
)

_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_QUAD: Final = re.compile(r"(?:(?:0|[1-9]\d{0,2})\.){3}(?:0|[1-9]\d{0,2})")
_NUMBER: Final = re.compile(r"\d+|0[xX][0-9a-fA-F]*")
_DOTS: Final = frozenset("\u3002\uff0e\uff61\u2024\ufe52")


class HostFault(ValueError):
    """A host that is not written in the one form that every client reads alike; the message says what would be."""


def canonical_host(text: str) -> str | Address:
    """Answer a host in one form: an address, or a name in lower-case ASCII without a trailing dot.

    Args:
        text: the host of a URL; IPv6 in brackets.

    Raises:
        HostFault: it is none, or is written so that clients disagree about it (octal, hex, short or decimal IPv4,
            percent-encoding, look-alike characters).
        MissingExtraError: an international name, and the `idna` package is missing.
    """
    if text.startswith("["):
        if not re.fullmatch(r"\[[0-9A-Fa-f:.]+\]", text):
            raise HostFault("is not an IPv6 address in brackets, without zone")
        try:
            return IPv6Address(text[1:-1])
        except ValueError:
            raise HostFault("is not an IPv6 address") from None
    name = (text if text.isascii() else _to_ascii(text)).lower()
    name = name.removesuffix(".")
    labels = name.split(".")
    if len(name) > 253 or not all(map(_LABEL.fullmatch, labels)):
        raise HostFault("is not a host name; write letters, digits, hyphens and dots")
    if not _NUMBER.fullmatch(labels[-1]):
        return name
    # What ends in a number is an IPv4 address for browsers and the C library, in forms that people do not read.
    if not _QUAD.fullmatch(name):
        raise HostFault("is an unusual form of an IPv4 address; write four plain decimal numbers")
    try:
        return IPv4Address(name)
    except ValueError:
        raise HostFault("is not an IPv4 address") from None


def _to_ascii(text: str) -> str:
    if not _DOTS.isdisjoint(text) or unicodedata.normalize("NFKC", text).isascii():
        raise HostFault("hides plain characters behind look-alikes; write them in ASCII")
    try:
        import idna
    except ImportError:
        raise MissingExtraError("idna", "http") from None
    try:
        name = idna.encode(text, uts46=True, std3_rules=True).decode("ascii")
    except (idna.IDNAError, UnicodeError):
        raise HostFault("is not an international host name") from None
    before, after = text.split("."), name.split(".")
    if len(before) != len(after) or any(
        not old.isascii() and not new.startswith("xn--") for old, new in zip(before, after, strict=True)
    ):
        raise HostFault("hides plain characters behind look-alikes or letters that are not seen; write them in ASCII")
    return name


def private_name(name: str) -> bool:
    """Tell whether a name leads to a private address by standard or habit; names without a dot do."""
    return "." not in name or _ends_in(name, _PRIVATE_SUFFIXES)


def is_public_name(name: str) -> bool:
    """Tell whether a name may be that of a public host: not a private one, and not one that leads where its reader wants."""
    return not private_name(name) and not _ends_in(name, _ODD_SUFFIXES)


def _ends_in(name: str, suffixes: frozenset[str]) -> bool:
    labels = name.split(".")
    return any(".".join(labels[start:]) in suffixes for start in range(len(labels)))


def embedded(address: Address) -> tuple[Address, ...]:
    """Answer the address and the IPv4 addresses that it carries (mapped, compatible, NAT64, 6to4, Teredo, ISATAP)."""
    if isinstance(address, IPv4Address):
        return (address,)
    number = int(address)
    inner: list[Address] = [address]
    if number >> 32 in (0, 0xFFFF, 0xFFFF_0000) or any(address in network for network in _NAT64):
        inner.append(IPv4Address(number & 0xFFFFFFFF))
    if (sixtofour := address.sixtofour) is not None:
        inner.append(sixtofour)
    if (teredo := address.teredo) is not None:
        inner.extend(teredo)
    if (number >> 32) & 0xFDFF_FFFF == 0x5EFE:
        inner.append(IPv4Address(number & 0xFFFFFFFF))
    return tuple(inner)


def is_metadata(address: Address) -> bool:
    """Tell whether an address, or one that it carries, is a cloud's metadata service."""
    return any(one in METADATA_ADDRESSES for one in embedded(address))


def is_private(address: Address) -> bool:
    """Tell whether an address is one of an inner network: loopback, RFC 1918, CGNAT, link-local, unique local."""
    if isinstance(address, IPv4Address):
        return address in _CGNAT or any(address in network for network in _RFC1918)
    mapped = address.ipv4_mapped
    return is_private(mapped) if mapped else address.is_loopback or address.is_link_local or address in _UNIQUE_LOCAL


def why_not_public(address: Address) -> str | None:
    """Answer why an address is not one of the public internet; None if it is."""
    for one in embedded(address):
        if one in METADATA_ADDRESSES:
            return "is a cloud metadata address"
        if isinstance(one, IPv4Address):
            if not one.is_global or one.is_multicast or one.is_reserved or any(one in net for net in _NOT_PUBLIC_V4):
                return "is a private or special address"
        elif one not in _PUBLIC_V6 or any(one in network for network in _NOT_PUBLIC_V6):
            return "is a private or special address"
    return None


def to_network(text: str) -> Network | None:
    """Answer a network written as `10.0.0.0/8`; None if the text is none."""
    try:
        return ip_network(text)
    except ValueError:
        return None
