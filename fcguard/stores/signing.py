"""Sign checkpoints with Ed25519, and check such a signature against a known key."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fcguard.errors import MissingExtraError, StoreError
from fcguard.stores.checkpoint import Checkpoint, Signature, body_to_sign

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
except ImportError as error:
    raise MissingExtraError("cryptography", "sign") from error

__all__ = ["check_signature", "make_key", "sign"]

_ALGORITHM: Final = "Ed25519"


def make_key() -> tuple[bytes, bytes]:
    """Make a private key and its public key, both as PEM text. The private one is not encrypted: keep it safe."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return private, public


def sign(checkpoint: Checkpoint, private_key: bytes, password: bytes | None = None) -> Checkpoint:
    """Answer the checkpoint with a signature.

    Args:
        checkpoint: what to sign.
        private_key: Ed25519 key as PEM text.
        password: of the key, if it is encrypted.

    Raises:
        StoreError: it is no such key, or the password is wrong.
    """
    try:
        key = serialization.load_pem_private_key(private_key, password)
    except (ValueError, TypeError) as error:
        raise StoreError(f"the private key cannot be read: {error}; give an Ed25519 key as PEM text") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise StoreError("the private key is not an Ed25519 key; make one with `openssl genpkey -algorithm ed25519`")
    value = key.sign(body_to_sign(checkpoint))
    return replace(checkpoint, signature=Signature(_ALGORITHM, _raw(key.public_key()), value.hex()))


def check_signature(checkpoint: Checkpoint, public_key: bytes) -> None:
    """Check that a checkpoint was signed by the owner of a known key, and is unchanged.

    Args:
        checkpoint: as read.
        public_key: Ed25519 key as PEM text.

    Raises:
        StoreError: it is unsigned, signed by another key, or was changed.
    """
    try:
        key = serialization.load_pem_public_key(public_key)
    except ValueError as error:
        raise StoreError(f"the public key cannot be read: {error}; give an Ed25519 key as PEM text") from error
    if not isinstance(key, Ed25519PublicKey):
        raise StoreError("the public key is not an Ed25519 key")
    signature = checkpoint.signature
    if signature is None:
        raise StoreError("the checkpoint is not signed; anybody may have written it")
    if signature.algorithm != _ALGORITHM or signature.public_key != _raw(key):
        raise StoreError("the checkpoint was signed with another key")
    try:
        key.verify(bytes.fromhex(signature.value), body_to_sign(checkpoint))
    except (InvalidSignature, ValueError) as error:
        raise StoreError("the checkpoint was changed after it was signed") from error


def _raw(key: Ed25519PublicKey) -> str:
    return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw).hex()
