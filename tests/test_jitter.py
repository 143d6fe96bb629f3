"""Pauses are random, within bounds, and independent of the program's own random numbers."""

from __future__ import annotations

import os
import random

from hypothesis import given
from hypothesis import strategies as st

from fcguard import Retry
from fcguard.jitter import pause_between
from fcguard.recovery.backoff import next_pause
from tests.recovery.test_backoff import NOW, call_with


@given(st.floats(0, 10), st.floats(0, 10))
def test_a_pause_is_within_its_bounds(shortest: float, more: float) -> None:
    assert shortest <= pause_between(shortest, shortest + more) <= shortest + more


def test_pauses_leave_the_programs_random_numbers_alone() -> None:
    before = random.getstate()
    pauses = {pause_between(0, 1), next_pause(call_with("x"), Retry(), NOW, None)}
    assert random.getstate() == before
    assert len(pauses) == 2


def test_a_forked_process_has_pauses_of_its_own() -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, repr(pause_between(0, 1)).encode())
        os._exit(0)
    os.close(writing)
    try:
        assert os.read(reading, 100).decode() != repr(pause_between(0, 1))
    finally:
        os.close(reading)
        os.waitpid(child, 0)
