"""Rules about values: expressions, over-broad arguments, search scope, and the paths by which rules look."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcguard.errors import ConfigurationError
from fcguard.rules import CHINESE, ENGLISH, SearchVocabulary, allowed_values, expression, not_too_broad, search_scope
from fcguard.rules.selectors import WRONG_SHAPE, Selector
from tests.rules.value_texts import BROAD, BROAD_OBJECTS, NARROW, SCOPED, UNSCOPED

EXPRESSION = {"names": {"price", "quantity", "name"}, "functions": {"min", "max", "round"}}

BAD_EXPRESSIONS = [
    "__import__('os').system('id')",
    "().__class__.__bases__[0].__subclasses__()",
    "price.__class__",
    "price.real",
    "open('/etc/passwd')",
    "eval('1')",
    "exec('1')",
    "print(price)",
    "abs(price)",
    "min",
    "min.__self__",
    "max(*price)",
    "max(price, key=len)",
    "(lambda: 1)()",
    "lambda: 1",
    "[x for x in price]",
    "{x for x in price}",
    "(x for x in price)",
    "{1: 2}",
    "{1, 2}",
    "price[0]",
    "name[1:2]",
    "f'{price}'",
    "f'{__import__(\"os\")}'",
    "(a := 1)",
    "a = 1",
    "price; quantity",
    "import os",
    "yield 1",
    "await price",
    "*price",
    "9**9**9",
    "2**10",
    "10**1000",
    "'a' * 10",
    "10 * 'a'",
    "[0] * 10",
    "10 * (0,)",
    "(name + 'a') * 3",
    "'%1000000000d' % 1",
    "'{}'.format(price)",
    "1e999",
    "99999999999999999999",
    "1 << 100",
    "1 | 2",
    "~1",
    "price @ quantity",
    "1j",
    "b'x'",
    "...",
    "1 if price",
    "1 +",
    "",
    "   ",
    "price\\\n+1",
    "'\\x41'",
    "1\x00",
    "price\u200b",
    "_secret",
    "__builtins__",
    "\uff4fpen",
    "True.real",
    "1 is 1 # x\n; 2",
    "(" * 300 + "1" + ")" * 300,
    "-" * 200 + "1",
    "1" + "+1" * 200,
    "price if quantity else " * 30 + "1",
    "x" * 600,
]

GOOD_EXPRESSIONS = [
    "1",
    "1 + 2 * 3 - 4 / 5 // 6 % 7",
    "price * quantity",
    "price*quantity >= 100 and name == 'x'",
    "not (price > 5 or quantity <= 3)",
    "-price + +1",
    "min(price, quantity, 3)",
    "round(max(price, 2.5), 2)",
    "price if quantity > 0 else 0",
    "name in ('a', 'b')",
    "name not in ['a', 'b']",
    "name == 'os.system(rm)'",
    "name == '__import__'",
    "name is None",
    "1 < price < 10",
    "True and False",
    "name == '中文'",
    "(price\n + 1)",
    "  price  ",
    "price % 2 == 0",
    "1_000 * price",
    "0.5e3",
    "'a' + 'b' == name",
]


@pytest.mark.parametrize("text", BAD_EXPRESSIONS, ids=lambda value: ascii(value)[:40])
def test_no_other_expression_gets_through(text: str, make_call: Any) -> None:
    violation = expression(**EXPRESSION)(make_call({"expression": text}))
    assert violation is not None
    assert (violation.code, violation.next_action) == ("PARAM_INVALID", "fix_arguments")


@pytest.mark.parametrize("text", GOOD_EXPRESSIONS)
def test_plain_expressions_pass_and_evaluate(text: str, make_call: Any) -> None:
    assert expression(**EXPRESSION)(make_call({"expression": text})) is None
    scope = {"__builtins__": {}, "price": 3, "quantity": 2, "name": "x", "min": min, "max": max, "round": round}
    eval(compile(text.strip(), "<expression>", "eval"), scope)


def test_power_is_bounded(make_call: Any) -> None:
    rule = expression(names={"price"}, power=True)
    for good in ("price ** 2", "2 ** 10", "price ** 0.5", "2 ** 3 + 3 ** 2"):
        assert rule(make_call({"expression": good})) is None
    for bad in ("2 ** 11", "2 ** price", "9 ** 9 ** 9", "(2 ** 9) ** 9", "2 ** True", "2 ** -(-99)", "2 ** '2'"):
        assert rule(make_call({"expression": bad})) is not None


def test_a_long_text_inside_is_refused(make_call: Any) -> None:
    assert "longer" in expression(max_length=5000)(make_call({"expression": f"'{'a' * 1001}'"})).message


def test_names_are_listed_in_the_refusal(make_call: Any) -> None:
    assert "allowed: price" in expression(names="price")(make_call({"expression": "prize"})).message
    assert "allowed: none" in expression()(make_call({"expression": "prize"})).message
    assert "allowed: min" in expression(functions="min")(make_call({"expression": "max(1)"})).message


@pytest.mark.parametrize(
    "options", [{"names": {"_a"}}, {"names": {"a b"}}, {"functions": {5}}, {"max_length": 0}, {"max_depth": 0}]
)
def test_expression_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="expression"):
        expression(**options)


@pytest.mark.parametrize("value", [5, True, ["1"], {"a": 1}, 1.5])
def test_an_expression_is_a_text(value: Any, make_call: Any) -> None:
    assert expression()(make_call({"expression": value})).code == "PARAM_INVALID"


@given(text=st.text(alphabet="price123 +-*/().,[]'\"_=<>:{}@\n", max_size=25))
def test_what_passes_is_made_of_known_nodes_only(text: str, make_call: Any) -> None:
    if expression(**EXPRESSION)(make_call({"expression": text})) is None:
        kinds = {type(node) for node in ast.walk(ast.parse(text.strip(), mode="eval"))}
        assert kinds.isdisjoint(
            {ast.Attribute, ast.Subscript, ast.Lambda, ast.ListComp, ast.Pow, ast.NamedExpr, ast.Starred, ast.keyword}
        )


@pytest.mark.parametrize("value", BROAD + BROAD_OBJECTS, ids=ascii)
def test_too_broad(value: Any, make_call: Any) -> None:
    violation = not_too_broad("filter")(make_call({"filter": value}))
    assert violation is not None
    assert (violation.code, violation.next_action) == ("PARAM_TOO_BROAD", "fix_arguments")


@pytest.mark.parametrize("value", NARROW, ids=ascii)
def test_not_too_broad(value: Any, make_call: Any) -> None:
    assert not_too_broad("filter")(make_call({"filter": value})) is None


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (1, None),
        (1000, None),
        (1001, "PARAM_TOO_BROAD"),
        (0, "PARAM_TOO_BROAD"),
        (-1, "PARAM_TOO_BROAD"),
        (10**9, "PARAM_TOO_BROAD"),
    ]
    + [(bad, "PARAM_INVALID") for bad in (True, 1.5, "5", [1], {})],
)
def test_limits(value: Any, code: str | None, make_call: Any) -> None:
    violation = not_too_broad("filter", limit="page.size")(make_call({"filter": "x", "page": {"size": value}}))
    assert (violation and violation.code) == code


def test_breadth_options(make_call: Any) -> None:
    rule = not_too_broad("filter", broad_words=frozenset({"x"}), limit=["limit"], max_limit=5)
    assert rule(make_call({"filter": "X"})) is not None
    assert rule(make_call({"filter": "all"})) is None
    assert rule(make_call({"limit": 6})) is not None
    assert rule(make_call({})) is None
    assert not_too_broad("a.b")(make_call({"a": 5})).code == "PARAM_INVALID"
    with pytest.raises(ConfigurationError, match="has no parameter"):
        rule(make_call({}, schema={"properties": {"query": {}}}))
    for wrong in ({"max_limit": 0}, {"max_limit": True}, {"max_limit": "5"}):
        with pytest.raises(ConfigurationError, match="max_limit"):
            not_too_broad("a", **wrong)
    with pytest.raises(ConfigurationError, match="at least one"):
        not_too_broad()


@pytest.mark.parametrize("text", SCOPED)
def test_a_search_with_bounds_passes(text: str, make_call: Any) -> None:
    assert search_scope()(make_call({"query": text})) is None


@pytest.mark.parametrize("text", UNSCOPED)
def test_a_search_without_bounds_is_refused(text: str, make_call: Any) -> None:
    violation = search_scope()(make_call({"query": text}))
    assert violation is not None
    assert (violation.code, violation.next_action) == ("PARAM_TOO_BROAD", "fix_arguments")
    assert "time range" in violation.message


def test_parameters_can_give_the_scope(make_call: Any) -> None:
    rule = search_scope("q", times=["since"], entities=["filter.order_id"])
    assert rule(make_call({"q": "errors", "since": "2026-01-01"})) is None
    assert rule(make_call({"q": "errors", "filter": {"order_id": "A1"}})) is None
    assert rule(make_call({"q": "errors", "since": ""})) is not None
    assert rule(make_call({"q": "errors", "filter": {"order_id": "*"}})) is not None
    assert rule(make_call({"q": "errors", "filter": {"order_id": True}})) is not None
    assert rule(make_call({"q": "errors", "since": None})) is not None
    assert "(since)" in rule(make_call({"q": "errors"})).message
    assert search_scope(None, entities="id")(make_call({"id": 5})) is None
    assert search_scope(None, times="since")(make_call({})) is not None


@pytest.mark.parametrize(
    ("needs", "text", "passes"),
    [
        ("time", "last 7 days", True),
        ("time", "order A1001", False),
        ("entity", "last 7 days", False),
        ("entity", "order A1001", True),
        ("both", "order A1001", False),
        ("both", "order A1001 last 7 days", True),
    ],
)
def test_what_a_search_needs(needs: str, text: str, passes: bool, make_call: Any) -> None:
    assert (search_scope(needs=needs)(make_call({"query": text})) is None) is passes


def test_the_vocabulary_is_pluggable(make_call: Any) -> None:
    french = SearchVocabulary(times=(r"\bhier\b",), entities=(r"\bcommande \w+",), fillers=("commande toutes",))
    rule = search_scope(vocabulary=french)
    assert rule(make_call({"query": "les erreurs d'hier"})) is None
    assert rule(make_call({"query": "commande X1"})) is None
    assert rule(make_call({"query": "commande toutes"})) is not None
    assert rule(make_call({"query": "yesterday"})) is not None
    assert search_scope(vocabulary=french + CHINESE)(make_call({"query": "昨天"})) is None
    assert search_scope(vocabulary=SearchVocabulary())(make_call({"query": "yesterday"})) is not None
    assert not ENGLISH.names_time("昨天")


def test_search_options_are_checked(make_call: Any) -> None:
    for wrong in ({"needs": "some"}, {"vocabulary": "en"}, {"query": None}):
        with pytest.raises(ConfigurationError, match="search_scope"):
            search_scope(**wrong)
    assert search_scope()(make_call({"query": 5})).code == "PARAM_INVALID"
    assert search_scope()(make_call({"query": None})).code == "PARAM_TOO_BROAD"
    with pytest.raises(ConfigurationError, match="has no parameter"):
        search_scope()(make_call({}, schema={"properties": {"q": {}}}))


ARGUMENTS = {
    "url": "u",
    "filter": {"url": "f", "deep": {"x": 1}},
    "urls": ["a", "b"],
    "items": [{"n": 1}, {"n": 2}, {}],
    "matrix": [[1], [2, 3]],
    "none": None,
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("url", [("url", "u")]),
        ("missing", []),
        ("filter.url", [("filter.url", "f")]),
        ("filter.deep.x", [("filter.deep.x", 1)]),
        ("filter.missing", []),
        ("urls[*]", [("urls[0]", "a"), ("urls[1]", "b")]),
        ("urls[1]", [("urls[1]", "b")]),
        ("urls[9]", []),
        ("items[*].n", [("items[0].n", 1), ("items[1].n", 2)]),
        ("matrix[*][0]", [("matrix[0][0]", 1), ("matrix[1][0]", 2)]),
        ("none", [("none", None)]),
        ("none.x", []),
        ("none[*]", []),
        ("url.x", [("url.x", WRONG_SHAPE)]),
        ("url[*]", [("url[*]", WRONG_SHAPE)]),
        ("url[0]", [("url[0]", WRONG_SHAPE)]),
        ("urls.x", [("urls.x", WRONG_SHAPE)]),
        ("filter[*]", [("filter[*]", WRONG_SHAPE)]),
    ],
)
def test_paths_find_values(path: str, found: list[Any]) -> None:
    assert Selector(path).find(ARGUMENTS) == found


@pytest.mark.parametrize(
    "path", ["", ".", "a.", ".a", "a..b", "a[", "a[]", "a[x]", "a]", "[0]", "[*].a", "a[-1]", "a[*]b", 5, None]
)
def test_what_is_no_path_is_refused_when_built(path: Any) -> None:
    with pytest.raises(ConfigurationError, match="not a path"):
        Selector(path)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": {"a": {}}},
        {"properties": {}, "additionalProperties": True},
        {"properties": {}, "additionalProperties": {"type": "string"}},
        {"properties": {}, "$ref": "#/$defs/x"},
        {"properties": {}, "allOf": []},
        {"properties": {}, "patternProperties": {".*": {}}},
    ],
)
def test_a_path_may_lead_where_a_schema_is_open(schema: dict[str, Any], make_call: Any) -> None:
    Selector("a.b").check(schema, "rule")
    assert allowed_values("a.b", ["x"])(make_call({}, schema=schema)) is None


def test_a_path_that_leads_nowhere_refuses_the_call(make_call: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"'a\.b'.*no parameter 'a'.*x, y"):
        allowed_values("a.b", ["x"])(make_call({}, schema={"properties": {"x": {}, "y": {}}}))
    with pytest.raises(ConfigurationError, match="none"):
        Selector("a").check({"properties": {}}, "rule")


def test_paths_are_values() -> None:
    assert Selector("a") == Selector("a") != Selector("b")
    assert len({Selector("a"), Selector("a")}) == 1
    assert Selector("a") != "a"
    assert repr(WRONG_SHAPE) == "<a value of another shape>"
