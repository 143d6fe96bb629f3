"""Recorded conversations and published tools of real servers, where the shared data is at hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from adapter_fakes import CountingGuard

from fcguard.adapters import openai
from fcguard.model.schemas import definitions, name_problem
from fcguard.model.tool import Tool

DATA = Path(__file__).parents[3] / "shared" / "data"
TRAJECTORIES = DATA / "tau_bench" / "gpt-4o-airline.trajectories.jsonl"
SERVERS = DATA / "livemcpbench" / "mcp_tools.json"


@pytest.mark.skipif(not TRAJECTORIES.exists(), reason="the shared data is not here")
def test_recorded_chats_are_read_and_echoed_as_they_were() -> None:
    calls = 0
    for line in TRAJECTORIES.read_text(encoding="utf-8").splitlines():
        for message in json.loads(line)["traj"]:
            if message["role"] != "assistant":
                continue
            turn = openai.read(message)
            assert turn.unread == ()
            sent = message.get("tool_calls") or []
            assert [intent.tool for intent in turn.intents] == [call["function"]["name"] for call in sent]
            assert turn.call_ids == tuple(call["id"] for call in sent)
            kept = {key: value for key, value in message.items() if value is not None or key == "content"}
            assert turn.assistant_messages() == [kept]
            assert len(openai.answer(CountingGuard(), message)) == len(sent)
            calls += len(sent)
    assert calls == 1164


@pytest.mark.skipif(not SERVERS.exists(), reason="the shared data is not here")
@pytest.mark.parametrize(
    ("format", "place"), [("mcp", "inputSchema"), ("anthropic", "input_schema"), ("openai_responses", "parameters")]
)
def test_schemas_of_real_servers_are_sent_as_they_are(format: Any, place: str) -> None:
    published: list[dict[str, Any]] = []
    for server in json.loads(SERVERS.read_text(encoding="utf-8")):
        for entry in server["tools"].values():
            published += entry["tools"]
    tools = [Tool(name=tool["name"], parameters=tool["inputSchema"], fn=print) for tool in published]
    assert len(tools) == 527
    accepted = [tool for tool in tools if name_problem(tool.name, format) is None]
    assert len(accepted) == len(tools)
    for tool, made in zip(accepted, definitions(accepted, format), strict=True):
        assert made[place] == {"type": "object", **tool.parameters}
