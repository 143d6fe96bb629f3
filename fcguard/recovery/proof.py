"""What is proved about a write by how it failed, and the row of a table that says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, get_args

__all__ = ["PROOFS", "Answer", "Classified", "Proof"]

Proof = Literal["not_sent", "refused", "unknown"]
"""`not_sent`: it never left this process · `refused`: the other side answered that it did not do it · `unknown`: nothing is
proved, it may have been applied."""

PROOFS: Final[tuple[str, ...]] = get_args(Proof)


class Answer(NamedTuple):
    """What a table says about one kind of failure.

    Attributes:
        error_type: a built-in error type.
        proof: what it proves about a write.
        reason: why, in a few words.
    """

    error_type: str
    proof: Proof
    reason: str


@dataclass(frozen=True, slots=True)
class Classified:
    """What a failure is, and what it proves.

    Attributes:
        error_type: a built-in error type.
        proof: what it proves about a write; says nothing about reads, which change nothing.
        message: one short line for a model or a person; secrets are masked.
        reason: why it was classified so, for the evidence.
        retry_after: seconds the other side asked to wait; None if it did not say.
        status: HTTP status, or exit code of a process; None if there is none.

    Raises:
        ValueError: `proof` is none of the three words; a word that nobody knows must not pass for a proof.
    """

    error_type: str
    proof: Proof
    message: str
    reason: str
    retry_after: float | None = None
    status: int | None = None

    def __post_init__(self) -> None:
        if self.proof not in PROOFS:
            raise ValueError(f"proof={self.proof!r}: use 'not_sent', 'refused' or 'unknown'")
