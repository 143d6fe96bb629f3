"""JSON containers that refuse to change: what was validated is what is approved, executed and recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NoReturn

__all__ = ["FrozenDict", "FrozenList", "freeze", "thaw"]


def _refuse(self: Any, *_: Any, **__: Any) -> NoReturn:
    raise TypeError("the arguments of a governed call are frozen; copy them to change the copy")


class FrozenDict(dict[str, Any]):
    """A dict whose content cannot be changed; equal to, and serialised like, a plain one."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return (FrozenDict, (dict(self),))

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, memo: Any) -> dict[str, Any]:
        return thaw(self)  # type: ignore[no-any-return]


class FrozenList(list[Any]):
    """A list whose content cannot be changed; equal to, and serialised like, a plain one."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = extend = insert = pop = remove = clear = sort = reverse = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return (FrozenList, (list(self),))

    def __copy__(self) -> FrozenList:
        return self

    def __deepcopy__(self, memo: Any) -> list[Any]:
        return thaw(self)  # type: ignore[no-any-return]


_CONTAINERS: Final = frozenset({dict, list, FrozenDict, FrozenList})


def freeze(value: Mapping[str, Any]) -> FrozenDict:
    """Answer a frozen copy of a JSON object, nested containers included."""
    for item in value.values():
        if type(item) in _CONTAINERS:
            return FrozenDict({key: _freeze(item) for key, item in value.items()})
    return FrozenDict(value)


def _freeze(value: Any) -> Any:
    if isinstance(value, dict):
        return FrozenDict({key: _freeze(item) for key, item in value.items()})
    if isinstance(value, list):
        return FrozenList([_freeze(item) for item in value])
    return value


def thaw(value: Any) -> Any:
    """Answer a plain, deep copy of a JSON value: what a tool may do with as it likes."""
    if isinstance(value, dict):
        for item in value.values():
            if type(item) in _CONTAINERS:
                return {key: thaw(item) if type(item) in _CONTAINERS else item for key, item in value.items()}
        return {**value}
    if isinstance(value, list):
        return [thaw(item) if type(item) in _CONTAINERS else item for item in value]
    return value
