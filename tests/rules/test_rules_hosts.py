"""The hosts rule: URLs that other parsers read differently, and addresses in disguise; plain URLs must pass."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcguard.errors import ConfigurationError
from fcguard.model.context import Environment, TaskContext
from fcguard.rules.host_rule import hosts
from tests.rules.plain_urls import HARMLESS
from tests.rules.trick_urls import TRICKS


@pytest.mark.parametrize(("options", "url"), TRICKS)
def test_no_trick_gets_through(options: dict[str, Any], url: str, make_call: Any) -> None:
    violation = hosts("url", **options)(make_call({"url": url}))
    assert violation is not None
    assert (violation.code, violation.next_action) == ("PARAM_INVALID", "fix_arguments")


@pytest.mark.parametrize(("options", "url"), HARMLESS)
def test_no_plain_url_is_refused(options: dict[str, Any], url: str, make_call: Any) -> None:
    assert hosts("url", **options)(make_call({"url": url})) is None


def test_the_tables_are_large_enough() -> None:
    assert len({url for _, url in TRICKS}) >= 60
    assert len({url for _, url in HARMLESS}) >= 60


def test_the_environment_says_which_hosts_are_allowed(make_call: Any) -> None:
    rule = hosts()
    inside = TaskContext(
        environment=Environment(name="test-a", base_urls=("https://mall.test-a.example", "10.0.0.5:8080"))
    )
    assert rule(make_call({"url": "https://mall.test-a.example/orders"}, context=inside)) is None
    assert rule(make_call({"url": "http://10.0.0.5:8080/orders"}, context=inside)) is None
    refused = rule(make_call({"url": "https://mall.example/orders"}, context=inside))
    assert "'mall.example'" in refused.message
    assert "https://mall.test-a.example" in refused.message
    assert "environment.base_urls" in rule(make_call({"url": "https://mall.example/"})).message


def test_every_url_of_a_list_is_judged(make_call: Any) -> None:
    rule = hosts("urls[*]", "filter.url", allow=["a.test"])
    assert rule(make_call({"urls": ["http://a.test/", "http://a.test/x"], "filter": {"url": "http://a.test"}})) is None
    assert rule(make_call({"urls": [], "filter": {}})) is None
    assert rule(make_call({"urls": None, "filter": None})) is None
    assert rule(make_call({"urls": ["http://a.test/", "http://b.test/"]})).problems[0].path == "urls[1]"
    assert rule(make_call({"filter": {"url": "http://b.test"}})).problems[0].path == "filter.url"
    assert rule(make_call({"urls": "http://a.test/"})).code == "PARAM_INVALID"
    assert rule(make_call({"filter": "http://a.test/"})).code == "PARAM_INVALID"


@pytest.mark.parametrize("value", [5, True, ["http://a.test"], {"a": 1}, 1.5])
def test_another_type_is_refused(value: Any, make_call: Any) -> None:
    assert hosts(allow=["a.test"])(make_call({"url": value})).code == "PARAM_INVALID"


def test_ports_and_length_are_limited(make_call: Any) -> None:
    rule = hosts(allow=["a.test"], ports=[443, 8443])
    assert rule(make_call({"url": "https://a.test"})) is None
    assert "443, 8443" in rule(make_call({"url": "https://a.test:22"})).message
    assert "longer" in rule(make_call({"url": "https://a.test/" + "a" * 9000})).message


@pytest.mark.parametrize(
    "options",
    [
        {"allow": "a.test"},
        {"allow": [""]},
        {"allow": [5]},
        {"allow": ["a b"]},
        {"allow": ["a.test/path"]},
        {"allow": ["user@a.test"]},
        {"allow": ["a:b:c"]},
        {"allow": ["0x7f.1"]},
        {"allow": ["http://a@b"]},
        {"allow": [], "schemes": []},
        {"schemes": ["HTTP"]},
        {"ports": []},
        {"ports": [0]},
        {"ports": ["80"]},
        {"allow_private": ["10.0.0.0/40"]},
    ],
)
def test_options_are_checked_when_the_rule_is_built(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        hosts("url", **options)


@given(
    number=st.integers(min_value=0, max_value=2**32 - 1), form=st.sampled_from(["{:d}", "{:#x}", "0{:o}", "{:#010x}"])
)
def test_an_address_in_one_number_never_passes(number: int, form: str, make_call: Any) -> None:
    assert hosts(allow=["*"])(make_call({"url": f"http://{form.format(number)}/"})) is not None


@given(address=st.ip_addresses())
def test_an_address_passes_only_if_it_is_public(address: Any, make_call: Any) -> None:
    url = f"http://[{address}]/" if address.version == 6 else f"http://{address}/"
    if hosts(allow=["*"])(make_call({"url": url})) is None:
        assert address.is_global
        assert not address.is_multicast


@given(text=st.text(max_size=40))
def test_any_text_is_judged_without_a_crash(text: str, make_call: Any) -> None:
    rule = hosts(allow=["a.test"])
    assert rule(make_call({"url": text})) is not None or "a.test" in text.lower()
