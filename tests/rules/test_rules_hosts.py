"""The hosts rule: URLs that other parsers read differently, and addresses in disguise; plain URLs must pass."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcguard.errors import ConfigurationError
from fcguard.model.context import Environment, TaskContext
from fcguard.rules.host_rule import hosts

LISTED: dict[str, Any] = {"allow": ["docs.example.test", "https://api.example.test:8443/v1"]}
SUB: dict[str, Any] = {"allow": ["example.test"], "allow_subdomains": True}
GLOB: dict[str, Any] = {"allow": ["*.example.test"]}
ANY: dict[str, Any] = {"allow": ["*"]}
INNER: dict[str, Any] = {"allow": ["*"], "allow_private": True}

TRICKS: list[tuple[dict[str, Any], str]] = [
    # metadata and private addresses in every form
    (ANY, "http://169.254.169.254/latest/meta-data/"),
    (LISTED, "http://169.254.169.254/latest/meta-data/"),
    (INNER, "http://169.254.169.254/latest/meta-data/"),
    (INNER, "http://[::ffff:169.254.169.254]/"),
    (INNER, "http://[fd00:ec2::254]/"),
    (INNER, "http://metadata.google.internal/"),
    (ANY, "http://metadata.google.internal/computeMetadata/v1/"),
    (ANY, "http://100.100.100.200/"),
    (ANY, "http://168.63.129.16/"),
    (ANY, "http://192.0.0.192/"),
    (ANY, "http://2852039166/"),
    (ANY, "http://0xa9fea9fe/"),
    (ANY, "http://0xA9.0xFE.0xA9.0xFE/"),
    (ANY, "http://0251.0376.0251.0376/"),
    (ANY, "http://025177524776/"),
    (ANY, "http://169.254.43518/"),
    (ANY, "http://169.16689662/"),
    (ANY, "http://0251.254.169.254/"),
    (ANY, "http://169.254.169.0xfe/"),
    (ANY, "http://169.254.169.254./"),
    (ANY, "http://127.0.0.1/"),
    (ANY, "http://127.1/"),
    (ANY, "http://127.0.1/"),
    (ANY, "http://0177.0.0.1/"),
    (ANY, "http://0/"),
    (ANY, "http://0.0.0.0/"),
    (ANY, "http://0x7f.1/"),
    (ANY, "http://2130706433/"),
    (ANY, "http://017700000001/"),
    (ANY, "http://127.000.000.001/"),
    (ANY, "http://10.0.0.1/"),
    (ANY, "http://172.16.5.4/"),
    (ANY, "http://192.168.1.1/"),
    (ANY, "http://100.64.0.1/"),
    (ANY, "http://198.18.0.1/"),
    (ANY, "http://192.88.99.1/"),
    (ANY, "http://224.0.0.1/"),
    (ANY, "http://255.255.255.255/"),
    (ANY, "http://240.0.0.1/"),
    (ANY, "http://256.256.256.256/"),
    (ANY, "http://1.2.3.4.5/"),
    (ANY, "http://[::1]/"),
    (ANY, "http://[::]/"),
    (ANY, "http://[0:0:0:0:0:0:0:1]/"),
    (ANY, "http://[::ffff:127.0.0.1]/"),
    (ANY, "http://[::ffff:7f00:1]/"),
    (ANY, "http://[::ffff:a9fe:a9fe]/"),
    (ANY, "http://[::127.0.0.1]/"),
    (ANY, "http://[64:ff9b::7f00:1]/"),
    (ANY, "http://[64:ff9b::169.254.169.254]/"),
    (ANY, "http://[2002:7f00:1::]/"),
    (ANY, "http://[2002:a9fe:a9fe::1]/"),
    (ANY, "http://[2001:0:0:0:0:0:5601:5601]/"),
    (ANY, "http://[2606:4700::5efe:127.0.0.1]/"),
    (ANY, "http://[fe80::1]/"),
    (ANY, "http://[fe80::1%25eth0]/"),
    (ANY, "http://[fc00::1]/"),
    (ANY, "http://[fd12:3456::1]/"),
    (ANY, "http://[2001:db8::1]/"),
    (ANY, "http://[ff02::1]/"),
    (ANY, "http://[::1%250]/"),
    (ANY, "http://localhost/"),
    (ANY, "http://LOCALHOST/"),
    (ANY, "http://localhost./"),
    (ANY, "http://a.localhost/"),
    (ANY, "http://printer.local/"),
    (ANY, "http://intranet/"),
    (ANY, "http://db.internal/"),
    (ANY, "http://kubernetes.default.svc/"),
    (ANY, "http://127.0.0.1.nip.io/"),
    (ANY, "http://localtest.me/"),
    # look-alike letters
    (ANY, "http://\u2460\u2465\u2468.\u2461\u2464\u2463.\u2460\u2465\u2468.\u2461\u2464\u2463/"),
    (ANY, "http://\uff11\uff12\uff17.0.0.1/"),
    (ANY, "http://127\u30020\u30020\u30021/"),
    (ANY, "http://\uff4c\uff4fcalhost/"),
    (LISTED, "http://docs.example\u3002test/"),
    (LISTED, "http://d\u043ecs.example.test/"),
    (LISTED, "http://\u2f4d-.example.test/"),
    (ANY, "http://999.1.1.1/"),
    ({"allow": ["10.0.0.0/8"]}, "http://docs.example.test/"),
    ({"allow": ["10.0.0.0/8"]}, "http://11.0.0.1/"),
    (ANY, "http://[:::]/"),
    (LISTED, "http://docs.\u212bexample.test/"),
    (LISTED, "http://docs.example.test\u200b/"),
    (LISTED, "http://docs.exam\u00adple.test/"),
    (LISTED, "http://xn--dcs-sed.example.test/"),
    # parsers that disagree
    (LISTED, "http://docs.example.test@evil.test/"),
    (LISTED, "http://docs.example.test:pw@evil.test/"),
    (LISTED, "http://evil.test@docs.example.test/"),
    (LISTED, "http://docs.example.test#@evil.test/"),
    (LISTED, "http://docs.example.test?@evil.test/"),
    (LISTED, "http://evil.test#docs.example.test"),
    (LISTED, "http://evil.test?docs.example.test"),
    (LISTED, "http://evil.test/docs.example.test"),
    (LISTED, "http://evil.test\\@docs.example.test/"),
    (LISTED, "http://docs.example.test\\.evil.test/"),
    (LISTED, "http:\\\\evil.test\\"),
    (LISTED, "http://evil.test;docs.example.test/"),
    (LISTED, "http://evil.test,docs.example.test/"),
    (LISTED, "http://docs.example.test%2eevil.test/"),
    (LISTED, "http://docs.example.test%00.evil.test/"),
    (LISTED, "http://docs.example.test%23@evil.test/"),
    (LISTED, "http://%64ocs.example.test/"),
    (LISTED, "http://docs.example.test\n.evil.test/"),
    (LISTED, "http://docs.example.test\t.evil.test/"),
    (LISTED, "http://evil.test\r\nHost: docs.example.test/"),
    (LISTED, " http://docs.example.test/"),
    (LISTED, "http://docs.example.test/ "),
    (LISTED, "http://docs.example.test /"),
    (LISTED, "ht\ttp://docs.example.test/"),
    (LISTED, "http:///docs.example.test/"),
    (LISTED, "http:/docs.example.test/"),
    (LISTED, "http:docs.example.test"),
    (LISTED, "//docs.example.test/"),
    (LISTED, "docs.example.test"),
    (LISTED, "/relative"),
    (LISTED, ""),
    (LISTED, "http://"),
    (LISTED, "http://:80/"),
    (LISTED, "http://docs.example.test:80:90/"),
    (LISTED, "http://docs.example.test:99999/"),
    (LISTED, "http://docs.example.test:0/"),
    (LISTED, "http://docs.example.test:8 0/"),
    (LISTED, "http://docs.example.test:/"),
    (LISTED, "http://[docs.example.test]/"),
    (LISTED, "http://docs..example.test/"),
    (LISTED, "http://.docs.example.test/"),
    (LISTED, "http://docs.example.test../"),
    # names that only resemble the allowed ones
    (LISTED, "http://docs.example.test.evil.test/"),
    (LISTED, "http://evildocs.example.test/"),
    (LISTED, "http://docs-example.test/"),
    (LISTED, "http://x.docs.example.test/"),
    (LISTED, "http://example.test/"),
    (SUB, "http://evilexample.test/"),
    (SUB, "http://example.test.evil.test/"),
    (SUB, "http://docs.example.test.evil.test/"),
    (GLOB, "http://example.test/"),
    (GLOB, "http://evil.test/?x=.example.test"),
    (GLOB, "http://evil-example.test/"),
    (LISTED, "http://api.example.test:8443/v1"),
    (LISTED, "https://api.example.test/v1"),
    (LISTED, "https://api.example.test:8444/v1"),
    # other schemes
    (ANY, "file:///etc/passwd"),
    (ANY, "gopher://docs.example.test:6379/_FLUSHALL"),
    (ANY, "dict://docs.example.test:11211/"),
    (ANY, "ftp://docs.example.test/"),
    (ANY, "javascript://docs.example.test/%0aalert(1)"),
    (ANY, "data:text/html,x"),
    (ANY, "about:blank"),
    (ANY, "jar:http://docs.example.test!/"),
    ({"allow": None}, "https://docs.example.test/"),
]

HARMLESS: list[tuple[dict[str, Any], str]] = [
    (LISTED, "https://docs.example.test"),
    (LISTED, "https://docs.example.test/"),
    (LISTED, "http://docs.example.test/how-to"),
    (LISTED, "https://docs.example.test:443/how-to"),
    (LISTED, "https://docs.example.test:8080/how-to"),
    (LISTED, "HTTPS://DOCS.EXAMPLE.TEST/How-To"),
    (LISTED, "https://docs.example.test./how-to"),
    (LISTED, "https://docs.example.test/a/../b"),
    (LISTED, "https://docs.example.test/@user/page"),
    (LISTED, "https://docs.example.test/?email=a@b.test"),
    (LISTED, "https://docs.example.test/?next=http://evil.test/"),
    (LISTED, "https://docs.example.test/#section-2"),
    (LISTED, "https://docs.example.test/?q=a%20b%2Fc"),
    (LISTED, "https://docs.example.test/169.254.169.254"),
    (LISTED, "https://docs.example.test/?ip=127.0.0.1"),
    (LISTED, "https://docs.example.test/localhost"),
    (LISTED, "https://docs.example.test/文档?q=订单"),
    (LISTED, "https://docs.example.test//double//slash"),
    (LISTED, "https://docs.example.test/a;b=c,d"),
    (LISTED, "https://docs.example.test/~user"),
    (LISTED, "https://docs.example.test/a:b"),
    (LISTED, "https://docs.example.test/[x]"),
    (LISTED, "https://docs.example.test/a%0Ab"),
    (LISTED, "https://docs.example.test?q=1"),
    (LISTED, "https://docs.example.test#top"),
    (LISTED, "https://api.example.test:8443/v1/orders"),
    (LISTED, "https://api.example.test:8443/v2"),
    (SUB, "https://example.test/"),
    (SUB, "https://docs.example.test:443/how-to"),
    (SUB, "https://a.b.c.example.test/"),
    (SUB, "https://EXAMPLE.test/"),
    (SUB, "https://x_y.example.test/"),
    (SUB, "https://1.example.test/"),
    (SUB, "https://10.0.0.1.example.test/"),
    (SUB, "https://localhost.example.test/"),
    (GLOB, "https://docs.example.test/"),
    (GLOB, "https://a.b.example.test/"),
    (ANY, "https://example.com/"),
    (ANY, "https://www.example.org:8443/x?y=z"),
    (ANY, "http://1.1.1.1/"),
    (ANY, "http://8.8.8.8:53/"),
    (ANY, "http://93.184.216.34/"),
    (ANY, "http://172.15.0.1/"),
    (ANY, "http://172.32.0.1/"),
    (ANY, "http://100.63.255.255/"),
    (ANY, "http://100.128.0.1/"),
    (ANY, "http://192.167.1.1/"),
    (ANY, "http://11.0.0.1/"),
    (ANY, "http://126.255.255.255/"),
    (ANY, "http://[2606:4700:4700::1111]/"),
    (ANY, "http://[2606:4700:4700::1111]:8080/"),
    (ANY, "https://internal.example.com/"),
    (ANY, "https://localhost.example.com/"),
    (ANY, "https://metadata.example.com/"),
    (ANY, "https://b\u00fccher.example/"),
    (ANY, "https://xn--bcher-kva.example/"),
    (ANY, "https://例え.テスト/"),
    (ANY, "https://3com.com/"),
    (ANY, "https://0x.org/"),
    (ANY, "https://a-b.example.com/"),
    ({"allow": ["b\u00fccher.example"]}, "https://xn--bcher-kva.example/"),
    ({"allow": ["xn--bcher-kva.example"]}, "https://B\u00dcCHER.example/"),
    ({"allow": ["127.0.0.1:8080"]}, "http://127.0.0.1:8080/"),
    ({"allow": ["http://localhost:8080"]}, "http://localhost:8080/x"),
    ({"allow": ["http://[::1]:8080"]}, "http://[::1]:8080/x"),
    ({"allow": ["test-a"]}, "http://test-a/"),
    ({"allow": ["10.0.0.0/8"], "allow_private": ["10.0.0.0/8"]}, "http://10.2.3.4/"),
    (INNER, "http://192.168.1.1/"),
    (INNER, "http://db.internal/"),
    (INNER, "http://[fd12:3456::1]/"),
    ({"allow": ["*"], "allow_private": ["10.1.0.0/16"]}, "http://10.1.2.3/"),
    ({"allow": ["*"], "schemes": ["ftp"]}, "ftp://example.com/"),
    ({"allow": ["*"], "ports": [443]}, "https://example.com/"),
]


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
