"""Applies recorded folds to what was sent: what comes out must be what normalization made."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any

from fcguard.arguments import Fold

_PART = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


def _parts(path: str) -> list[str | int]:
    return [int(index) if index else name for index, name in _PART.findall(path)]


def replay(sent: Any, folds: Sequence[Fold]) -> Any:
    """Apply folds of an object in their order; the order of keys follows, too."""
    value = copy.deepcopy(sent)
    for fold in folds:
        parts = _parts(fold.path)
        place = value
        for part in parts[:-1]:
            place = place[part]
        name = parts[-1]
        if fold.rule == "name":
            renamed = {(name if key == fold.before else key): item for key, item in place.items()}
            place.clear()
            place.update(renamed)
        elif fold.rule in ("null_dropped", "empty_dropped"):
            assert repr(place.pop(name)) == repr(fold.before)
        elif fold.rule == "default":
            assert name not in place
            place[name] = copy.deepcopy(fold.after)
        else:
            assert repr(place[name]) == repr(fold.before)
            place[name] = copy.deepcopy(fold.after)
    return value
