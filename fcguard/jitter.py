"""Random pauses that leave the program's own random numbers alone, and that forked workers do not share."""

from __future__ import annotations

import os
import random
from typing import Final

__all__ = ["pause_between"]

_random: Final = random.Random()  # noqa: S311 - spreads pauses, guards nothing
os.register_at_fork(after_in_child=_random.seed)


def pause_between(shortest: float, longest: float) -> float:
    """Answer a random number of seconds between two bounds.

    Workers that seed `random` alike, as many do for reproducible runs, would otherwise wait alike and meet again.

    Args:
        shortest: lower bound in seconds.
        longest: upper bound in seconds.
    """
    return _random.uniform(shortest, longest)
