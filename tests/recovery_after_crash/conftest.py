from __future__ import annotations

from pathlib import Path

import pytest

from tests.recovery_after_crash.crashed_world import World


@pytest.fixture(params=["sync", "async"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return World(tmp_path, request.param)
