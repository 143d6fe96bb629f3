"""Schemas and calls of real servers and benchmarks, where their data lies beside the repository."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fcguard.arguments import ArgumentSchema

DATA = Path(__file__).parents[2].parent / "shared" / "data"
MCP = DATA / "livemcpbench"
BFCL = DATA / "bfcl"
TAU = DATA / "tau_bench"

needs_mcp = pytest.mark.skipif(not MCP.is_dir(), reason="the livemcpbench data is not at hand")
needs_bfcl = pytest.mark.skipif(not BFCL.is_dir(), reason="the bfcl data is not at hand")
needs_tau = pytest.mark.skipif(not TAU.is_dir(), reason="the tau_bench data is not at hand")


def lines(path: Path) -> Iterator[Any]:
    for line in path.read_text("utf-8").splitlines():
        yield json.loads(line)


def mcp_tools() -> dict[tuple[str, str], ArgumentSchema]:
    return {
        (server, tool["name"]): ArgumentSchema.compile(tool["inputSchema"])
        for entry in json.loads((MCP / "mcp_tools.json").read_text("utf-8"))
        for server, listing in entry["tools"].items()
        for tool in listing["tools"]
    }


def mcp_calls() -> Iterator[tuple[tuple[str, str], Any]]:
    for session in lines(MCP / "claude-sonnet-4.calls.jsonl"):
        for call in session["calls"]:
            if call["name"] == "execute-tool":
                sent = json.loads(call["arguments"])
                yield (sent.get("server_name"), sent.get("tool_name")), sent.get("params") or {}


@needs_mcp
def test_all_schemas_of_real_servers_compile() -> None:
    tools = mcp_tools()
    assert len(tools) == 527
    codes = Counter(finding.code for schema in tools.values() for finding in schema.findings)
    assert codes == {"default_invalid": 44, "draft4_exclusive": 1}


@needs_mcp
def test_calls_of_a_model_are_judged_as_published() -> None:
    """477 valid, 51 invalid, 3 unknown: counted without formats, which we assert; one call has no other fault than a format."""
    tools, verdicts = mcp_tools(), Counter[str]()
    for key, params in mcp_calls():
        if key not in tools:
            verdicts["unknown"] += 1
            continue
        rules = {problem.rule for problem in tools[key].check(params)}
        verdicts["invalid" if rules - {"format"} else "format" if rules else "valid"] += 1
    assert verdicts == {"valid": 476, "format": 1, "invalid": 51, "unknown": 3}


@needs_mcp
@pytest.mark.parametrize("effect", ["read", "write"])
def test_folding_mends_only_what_is_certain(effect: Any) -> None:
    tools, mended = mcp_tools(), []
    for key, params in mcp_calls():
        if key not in tools:
            continue
        made = tools[key].normalize(params, effect=effect)
        folds = [(fold.path, fold.rule, fold.before, fold.after) for fold in made.folds if fold.rule != "default"]
        if not tools[key].check(params):
            assert made.problems == ()
            assert folds == []
        elif not made.problems:
            mended.append((key[1], folds))
    assert mended == [
        ("valorant-leaderboard", [("region", "enum", "na", "NA")]),
        ("valorant-leaderboard", [("region", "enum", "eu", "EU")]),
    ]


def bfcl_functions() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path in sorted([*BFCL.glob("*.json"), *(BFCL / "multi_turn_func_doc").glob("*.json")]):
        for row in lines(path):
            functions = row.get("function") or ([row] if "parameters" in row else [])
            for function in functions if isinstance(functions, list) else [functions]:
                yield row.get("id", path.stem), function["name"], function["parameters"]


@needs_bfcl
def test_all_schemas_of_the_benchmark_compile() -> None:
    total, codes = 0, Counter[str]()
    for _, _, parameters in bfcl_functions():
        total += 1
        codes.update({finding.code for finding in ArgumentSchema.compile(parameters).findings})
    assert total > 1000
    assert codes["unknown_type"] == total
    assert codes["enum_type_conflict"] > 0


@needs_bfcl
def test_gold_calls_of_the_benchmark_are_accepted() -> None:
    """Every argument that the benchmark accepts is accepted here (its gold contradicts its own schema in a few places)."""
    schemas = {(case, name): ArgumentSchema.compile(parameters) for case, name, parameters in bfcl_functions()}
    accepted, refused = 0, []
    for path in sorted((BFCL / "possible_answer").glob("*.json")):
        for row in lines(path):
            for call in row["ground_truth"]:
                if not isinstance(call, dict):
                    continue
                ((name, arguments),) = call.items()
                schema = schemas.get((row["id"], name))
                if schema is None:
                    continue
                first = {key: _first(values) for key, values in arguments.items() if values and values[0] != ""}
                made = schema.normalize(first, effect="read")
                accepted += not made.problems
                if made.problems:
                    refused.append((row["id"], name, made.message))
    assert accepted > 500
    assert len(refused) / (accepted + len(refused)) < 0.04, refused


def _first(values: Any) -> Any:
    """The first accepted value; nested objects list accepted values, too."""
    value = values[0]
    if isinstance(value, dict):
        return {
            key: _first(inner) for key, inner in value.items() if isinstance(inner, list) and inner and inner[0] != ""
        }
    return value


@needs_tau
@pytest.mark.parametrize("effect", ["read", "write"])
def test_recorded_calls_of_an_agent_pass_unchanged(effect: Any) -> None:
    tools = {
        tool["function"]["name"]: ArgumentSchema.compile(tool["function"]["parameters"])
        for tool in json.loads((TAU / "airline_tools.json").read_text("utf-8"))["tools"]
    }
    total = 0
    for row in lines(TAU / "gpt-4o-airline.trajectories.jsonl"):
        for message in row["traj"]:
            for call in message.get("tool_calls") or ():
                total += 1
                sent = call["function"]["arguments"]
                made = tools[call["function"]["name"]].normalize(sent, effect=effect)
                assert made.problems == ()
                assert made.folds == ()
                assert made.value == json.loads(sent)
    assert total == 1164
