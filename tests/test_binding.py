"""Parameters that the host binds: a mark holds wherever it is written, or is refused; it is never dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, NewType, Optional

import pytest
from pydantic import BaseModel, Field

from fcguard import Bound, Environment, Guard, Tool
from fcguard.errors import ConfigurationError

if TYPE_CHECKING:
    from fcguard.model.call import Call as Hidden

Tenant = NewType("Tenant", Annotated[str, Bound("tenant")])  # type: ignore[valid-newtype]
SCHEMA = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "tenant": {"type": "string"}},
    "required": ["x", "tenant"],
    "additionalProperties": False,
}


def plain(x: int, tenant: Annotated[str, Bound("tenant")]) -> str:
    return tenant


def in_union(x: int, tenant: Annotated[str, Bound("tenant")] | None = None) -> str | None:
    return tenant


def in_optional(x: int, tenant: Optional[Annotated[str, Bound("tenant")]] = None) -> str | None:  # noqa: UP045
    return tenant


def around_union(x: int, tenant: Annotated[str | None, Bound("tenant")] = None) -> str | None:
    return tenant


def in_annotated(x: int, tenant: Annotated[Annotated[str, Bound("tenant")] | None, Field(max_length=9)] = None) -> Any:
    return tenant


def in_alias(x: int, tenant: Tenant) -> Any:
    return tenant


@pytest.mark.parametrize("fn", [plain, in_union, in_optional, around_union, in_annotated, in_alias])
@pytest.mark.parametrize("is_registered", [False, True])
def test_the_host_s_value_runs_whatever_the_model_says(
    guard: Guard, fn: Callable[..., Any], is_registered: bool
) -> None:
    if is_registered:
        guard.register(Tool(name="look", fn=fn, effect="read", parameters=SCHEMA))
    else:
        guard.tool(fn, name="look", effect="read")
    assert guard.tools[0].bound == {"tenant": "tenant"}
    assert list(guard.tools[0].model_schema["properties"]) == ["x"]
    with guard.task("look", environment=Environment(name="test", tenant="MINE")):
        assert guard.call("look", {"x": 1}).data == "MINE"
        assert guard.call("look", {"x": 1, "tenant": "OTHER"}).data in ("MINE", None)


class Order(BaseModel):
    tenant: Annotated[str, Bound("tenant")]


def as_default(x: int, tenant: str = Bound("tenant")) -> None:  # type: ignore[assignment]
    """Bind nothing."""


def as_field_default(x: int, tenant: str = Field(Bound("tenant"))) -> None:
    """Bind nothing."""


def nameless(x: int, tenant: Annotated[str, Bound]) -> None:
    """Bind nothing."""


def twice(x: int, tenant: Annotated[str, Bound("tenant"), Bound("actor")]) -> None:
    """Bind two."""


def in_list(x: int, tenant: list[Annotated[str, Bound("tenant")]]) -> None:
    """Bind an item."""


def in_model(x: int, tenant: Order) -> None:
    """Bind a field."""


@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (as_default, r"write tenant: Annotated\[str, Bound\('tenant'\)\]"),
        (as_field_default, "binds nothing"),
        (nameless, "without a name"),
        (twice, "bound to actor and tenant"),
        (in_list, "inside of its type"),
        (in_model, "inside of its type"),
    ],
)
def test_a_mark_that_cannot_be_kept_is_refused(guard: Guard, fn: Callable[..., Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        guard.tool(fn, name="look", effect="read")
    with pytest.raises(ConfigurationError, match=said):
        guard.register(Tool(name="look", fn=fn, effect="read", parameters=SCHEMA))
    assert guard.tools == ()


def unresolved(x: int, call: Hidden, tenant: Annotated[str, Bound("tenant")]) -> None:
    """Have a mark that cannot be read."""


def unresolved_without_mark(x: int, tenant: Hidden) -> Any:
    """Have annotations that nobody needs."""
    return tenant


def test_a_mark_that_cannot_be_resolved_is_refused(guard: Guard) -> None:
    with pytest.raises(ConfigurationError, match="mentions Bound"):
        guard.register(Tool(name="look", fn=unresolved, effect="read", parameters=SCHEMA))
    guard.register(Tool(name="look", fn=unresolved_without_mark, effect="read", parameters=SCHEMA))
    guard.register(Tool(name="text", fn=str, effect="read", parameters={"type": "object"}))
    assert guard.call("look", {"x": 1, "tenant": "T"}).data == "T"
