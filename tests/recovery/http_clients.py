"""Each HTTP client as a tool would use it: send the calls in one session, raise or return what comes back."""

from __future__ import annotations

import asyncio
import functools
import http.client
import urllib.parse
import urllib.request

import aiohttp
import anthropic
import botocore.config
import botocore.session
import httpx
import openai
import requests
import requests.adapters
import tenacity
import urllib3

TIMEOUT = 30.0
"""Seconds, read at each use: a test in which it runs out sets it to a few tenths."""
BODY = b'{"order_id": "A1"}'
JSON = {"Content-Type": "application/json"}


def with_httpx(calls, proxy=None):
    with httpx.Client(timeout=TIMEOUT, follow_redirects=True, proxy=proxy, trust_env=False, verify=False) as client:
        for method, url in calls:
            response = client.request(method, url, content=BODY, headers=JSON)
            response.raise_for_status()
            response.json()


def with_httpx_returning(calls):
    with httpx.Client(timeout=TIMEOUT, follow_redirects=True, trust_env=False, verify=False) as client:
        for method, url in calls:
            response = client.request(method, url, content=BODY, headers=JSON)
        return response


def with_httpx_async(calls):
    async def run():
        async with httpx.AsyncClient(timeout=TIMEOUT, follow_redirects=True, trust_env=False, verify=False) as client:
            for method, url in calls:
                response = await client.request(method, url, content=BODY, headers=JSON)
                response.raise_for_status()
                response.json()

    asyncio.run(run())


def with_httpx_under_tenacity(calls):
    @tenacity.retry(stop=tenacity.stop_after_attempt(2), wait=tenacity.wait_none(), reraise=True)
    def send():
        with_httpx(calls)

    send()


def with_requests(calls, proxy=None, retries=0):
    with requests.Session() as session:
        session.trust_env = False
        session.proxies = {"http": proxy, "https": proxy} if proxy else {}
        session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retries))
        for method, url in calls:
            response = session.request(method, url, data=BODY, headers=JSON, timeout=TIMEOUT)
            response.raise_for_status()
            response.json()


def with_requests_retrying(calls):
    with_requests(calls, retries=urllib3.Retry(total=2, allowed_methods=None, backoff_factor=0))


def with_urllib3(calls):
    with urllib3.PoolManager(timeout=TIMEOUT) as pool:
        for method, url in calls:
            response = pool.request(method, url, body=BODY, headers=JSON)
            if response.status < 400:
                response.json()
        return response


def with_aiohttp(calls):
    async def run():
        timeout = aiohttp.ClientTimeout(sock_connect=TIMEOUT, sock_read=TIMEOUT)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            for method, url in calls:
                async with session.request(method, url, data=BODY, headers=JSON) as response:
                    response.raise_for_status()
                    await response.json()

    asyncio.run(run())


def with_http_client(calls):
    connection = None
    try:
        for method, url in calls:
            parts = urllib.parse.urlsplit(url)
            if connection is None:
                kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
                connection = kind(parts.hostname, parts.port, timeout=TIMEOUT)
            connection.request(method, parts.path, BODY, JSON)
            response = connection.getresponse()
            response.read()
        return response
    finally:
        if connection is not None:
            connection.close()


def with_urllib(calls):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for method, url in calls:
        with opener.open(urllib.request.Request(url, BODY, JSON, method=method), timeout=TIMEOUT) as response:
            response.read()


def with_openai(calls, retries=0):
    for method, url in calls:
        base, _, path = url.rpartition("/")
        http_client = openai.DefaultHttpxClient(trust_env=False, verify=False)
        with openai.OpenAI(
            base_url=base, api_key="k", max_retries=retries, timeout=TIMEOUT, http_client=http_client
        ) as client:
            (client.put if method == "PUT" else client.post)(f"/{path}", cast_to=object, body={"a": 1})


def with_anthropic(calls):
    for _, url in calls:
        http_client = anthropic.DefaultHttpxClient(trust_env=False, verify=False)
        with anthropic.Anthropic(
            base_url=url, api_key="k", max_retries=0, timeout=TIMEOUT, http_client=http_client
        ) as client:
            client.post("/v1/messages", cast_to=object, body={"a": 1})


@functools.cache
def botocore_session():
    return botocore.session.Session()


def with_botocore(calls, attempts=1):
    config = botocore.config.Config(
        connect_timeout=TIMEOUT,
        read_timeout=TIMEOUT,
        retries={"total_max_attempts": attempts, "mode": "standard"},
        proxies={},
    )
    for _, url in calls:
        client = botocore_session().create_client(
            "sqs",
            endpoint_url=url,
            region_name="us-east-1",
            aws_access_key_id="k",
            aws_secret_access_key="k",
            config=config,
        )
        client.send_message(QueueUrl=url, MessageBody="x")


CLIENTS = {
    "httpx": with_httpx,
    "httpx, returned": with_httpx_returning,
    "httpx, async": with_httpx_async,
    "requests": with_requests,
    "urllib3": with_urllib3,
    "aiohttp": with_aiohttp,
    "http.client": with_http_client,
    "urllib.request": with_urllib,
    "openai": with_openai,
    "anthropic": with_anthropic,
    "botocore": with_botocore,
}
RETRYING = {
    "httpx, tenacity": with_httpx_under_tenacity,
    "requests, Retry": with_requests_retrying,
    "urllib3": with_urllib3,
    "aiohttp": with_aiohttp,
    "openai, 1 retry": lambda calls: with_openai(calls, retries=1),
    "botocore, 2 attempts": lambda calls: with_botocore(calls, attempts=2),
}
