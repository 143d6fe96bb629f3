"""One tool call through each agent framework that is installed; no model, no network, its own tracing off."""

from __future__ import annotations

import json
import logging
import os
import warnings
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeAlias

from tests.benchmarks.harness import Case, finished
from tests.benchmarks.scenarios import VALIDATE
from tests.benchmarks.tools import GOOD, flat_tool, runs

__all__ = ["PEERS", "Skipped", "peer_cases"]

Tool: TypeAlias = Callable[..., Any]
Call: TypeAlias = Callable[[Mapping[str, Any]], Any]
Paths: TypeAlias = dict[str, Call]
"""Name of a path -> `(arguments) -> result`, or something to await for it."""

NAME = "create_refund"
_QUIET_ENVIRONMENT = {
    "LANGCHAIN_TRACING_V2": "false",
    "LANGSMITH_TRACING": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OPENAI_API_KEY": "unused",
    "FASTMCP_LOG_LEVEL": "ERROR",
    "FASTMCP_CHECK_FOR_UPDATES": "off",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TELEMETRY_OPT_OUT": "true",
    "CREWAI_TRACING_ENABLED": "false",
}


@dataclass(frozen=True)
class Skipped:
    """A peer that was not timed, and why; `where` names the colour if it concerns only one."""

    name: str
    why: str
    where: str = ""


async def langchain(tool: Tool, colour: str, stack: AsyncExitStack) -> Paths:
    """LangChain's StructuredTool."""
    from langchain_core.tools import StructuredTool

    made = StructuredTool.from_function(**{"coroutine" if colour == "async" else "func": tool})
    path = made.ainvoke if colour == "async" else made.invoke
    return {f"langchain-core StructuredTool.{'ainvoke' if colour == 'async' else 'invoke'}": path}


async def langgraph(tool: Tool, colour: str, stack: AsyncExitStack) -> Paths:
    """LangGraph's ToolNode, called as its graph calls it."""
    from langchain_core.messages import AIMessage
    from langchain_core.tools import StructuredTool
    from langgraph.prebuilt import ToolNode
    from langgraph.runtime import Runtime

    node = ToolNode([StructuredTool.from_function(**{"coroutine" if colour == "async" else "func": tool})])
    config: Any = {"configurable": {"__pregel_runtime": Runtime()}}
    invoke = node.ainvoke if colour == "async" else node.invoke

    def call(arguments: Mapping[str, Any]) -> Any:
        wanted: Any = {"name": NAME, "args": dict(arguments), "id": "c1", "type": "tool_call"}
        return invoke([AIMessage(content="", tool_calls=[wanted])], config)

    return {f"langgraph ToolNode.{'ainvoke' if colour == 'async' else 'invoke'}": call}


async def pydantic_ai(tool: Tool, colour: str, stack: AsyncExitStack) -> Paths:
    """The tool manager of Pydantic AI."""
    from pydantic_ai import RunContext, RunUsage
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.tool_manager import ToolManager
    from pydantic_ai.toolsets import FunctionToolset

    context: Any = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    toolset: Any = FunctionToolset(tools=[tool], max_retries=1_000_000)
    manager = await ToolManager(toolset).for_run_step(context)

    async def call(arguments: Mapping[str, Any]) -> Any:
        return await manager.handle_call(ToolCallPart(tool_name=NAME, args=dict(arguments), tool_call_id="c1"))

    return {"pydantic-ai ToolManager.handle_call": call}


async def openai_agents(tool: Tool, colour: str, stack: AsyncExitStack) -> Paths:
    """The function tool of the OpenAI Agents SDK, alone and through the executor of its runs."""
    from agents import Agent, RunConfig, RunContextWrapper, RunHooks, function_tool, set_tracing_disabled
    from agents.run_internal.agent_bindings import bind_public_agent
    from agents.run_internal.run_steps import ToolRunFunction
    from agents.run_internal.tool_execution import execute_function_tool_calls
    from agents.tool_context import ToolContext
    from openai.types.responses import ResponseFunctionToolCall

    set_tracing_disabled(True)
    made = function_tool(tool)
    bindings = bind_public_agent(Agent(name="bench", tools=[made]))
    config = RunConfig(tracing_disabled=True)

    async def invoke(arguments: Mapping[str, Any]) -> Any:
        text = json.dumps(arguments)
        context: Any = ToolContext(context=None, tool_name=NAME, tool_call_id="c1", tool_arguments=text)
        return await made.on_invoke_tool(context, text)

    async def execute(arguments: Mapping[str, Any]) -> Any:
        wanted = ResponseFunctionToolCall(
            arguments=json.dumps(arguments), call_id="c1", name=NAME, type="function_call"
        )
        results, *_ = await execute_function_tool_calls(
            bindings=bindings,
            tool_runs=[ToolRunFunction(tool_call=wanted, function_tool=made)],
            hooks=RunHooks(),
            context_wrapper=RunContextWrapper(context=None),
            config=config,
        )
        return results[0].output

    return {"openai-agents FunctionTool.on_invoke_tool": invoke, "openai-agents function tool executor": execute}


async def mcp(tool: Tool, colour: str, stack: AsyncExitStack) -> Paths:
    """The server of the MCP SDK, alone and through its in-memory client."""
    from mcp.client.client import Client
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("bench")
    server.add_tool(tool)
    client = await stack.enter_async_context(Client(server))
    return {
        "mcp server.call_tool": lambda arguments: server.call_tool(NAME, dict(arguments)),
        "mcp in-memory client": lambda arguments: client.call_tool(NAME, dict(arguments)),
    }


async def fastmcp(tool: Tool, colour: str, stack: AsyncExitStack) -> Paths:
    """FastMCP's server, alone and through its in-memory client."""
    from fastmcp import Client, FastMCP

    server: Any = FastMCP("bench")
    server.tool(tool)
    client = await stack.enter_async_context(Client(server))
    return {
        "fastmcp server.call_tool": lambda arguments: server.call_tool(NAME, dict(arguments)),
        "fastmcp in-memory client": lambda arguments: client.call_tool(NAME, dict(arguments)),
    }


async def agent_framework(tool: Tool, colour: str, stack: AsyncExitStack) -> Paths:
    """The function tool of Microsoft Agent Framework."""
    from agent_framework import tool as declare

    made: Any = declare(tool)
    return {"agent-framework FunctionTool.invoke": lambda arguments: made.invoke(arguments=dict(arguments))}


async def semantic_kernel(tool: Tool, colour: str, stack: AsyncExitStack) -> Paths:
    """Semantic Kernel; it takes neither bounds nor enums, so it checks less than the others."""
    from semantic_kernel import Kernel
    from semantic_kernel.functions import KernelArguments, kernel_function

    async def arefund(order_id: str, reason: str, amount_cents: int, note: str | None = None) -> dict[str, Any]:
        return await finished(tool(order_id, reason, amount_cents, note))  # type: ignore[no-any-return]

    def refund(order_id: str, reason: str, amount_cents: int, note: str | None = None) -> dict[str, Any]:
        return tool(order_id, reason, amount_cents, note)  # type: ignore[no-any-return]

    plain: Any = arefund if colour == "async" else refund
    plain.__annotations__ = {"order_id": str, "reason": str, "amount_cents": int, "note": str | None, "return": dict}
    kernel = Kernel()
    kernel.add_function("bench", kernel_function(plain, name=NAME))

    def call(arguments: Mapping[str, Any]) -> Any:
        return kernel.invoke(plugin_name="bench", function_name=NAME, arguments=KernelArguments(**arguments))

    return {"semantic-kernel kernel.invoke (no bounds, no enum)": call}


async def google_adk(tool: Tool, colour: str, stack: AsyncExitStack) -> Paths:
    """The function tool of Google's ADK, which by default does not validate arguments."""
    from google.adk.agents import LlmAgent
    from google.adk.agents.invocation_context import InvocationContext
    from google.adk.sessions import InMemorySessionService
    from google.adk.tools import ToolContext
    from google.adk.tools.function_tool import FunctionTool

    made, service = FunctionTool(tool), InMemorySessionService()
    session = await service.create_session(app_name="bench", user_id="u")
    agent = LlmAgent(name="bench", tools=[made])
    run = InvocationContext(session_service=service, invocation_id="i", agent=agent, session=session)
    context: Any = ToolContext(run, function_call_id="c1")
    return {
        "google-adk FunctionTool.run_async (no validation)": lambda arguments: made.run_async(
            args=dict(arguments), tool_context=context
        )
    }


async def crewai(tool: Tool, colour: str, stack: AsyncExitStack) -> Paths:
    """CrewAI's tool."""
    from crewai.tools import tool as declare

    made: Any = declare(NAME)(tool)
    run = made.arun if colour == "async" else made.run
    return {f"crewai tool.{'arun' if colour == 'async' else 'run'}": lambda arguments: run(**arguments)}


Make: TypeAlias = Callable[[Tool, str, AsyncExitStack], Awaitable[Paths]]
PEERS: dict[str, tuple[str, Make]] = {
    "langchain-core": ("langchain-core", langchain),
    "langgraph": ("langgraph", langgraph),
    "pydantic-ai": ("pydantic-ai-slim", pydantic_ai),
    "openai-agents": ("openai-agents", openai_agents),
    "mcp": ("mcp>=2", mcp),
    "fastmcp": ("fastmcp>=4", fastmcp),
    "agent-framework": ("agent-framework-core", agent_framework),
    "semantic-kernel": ("semantic-kernel", semantic_kernel),
    "google-adk": ("google-adk", google_adk),
    "crewai": ("crewai", crewai),
}
"""Name -> what pip installs, and what makes its paths."""


async def peer_cases(
    colour: str, stack: AsyncExitStack, names: list[str], delay: float = 0.0
) -> tuple[list[Case], list[Skipped]]:
    """Make the cases of the peers that are installed, each checked to run the tool exactly once and to answer its result.

    Args:
        colour: of the tool.
        stack: closes the peers' clients.
        names: the peers to try.
        delay: seconds that an async tool waits.
    """
    for key, value in _QUIET_ENVIRONMENT.items():
        os.environ.setdefault(key, value)
    cases: list[Case] = []
    skipped: list[Skipped] = []
    for name in names:
        requirement, make = PEERS[name]
        package = requirement.split(">")[0]
        try:
            release = version(package)
        except PackageNotFoundError:
            skipped.append(Skipped(name, f"not installed: pip install '{requirement}'"))
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                paths = await make(flat_tool(colour, delay), colour, stack)
                made = [await _checked(path, call, colour) for path, call in paths.items()]
        except Exception as error:  # a peer that changed, or cannot be used here, is no reason to measure nothing
            skipped.append(Skipped(name, f"{type(error).__name__}: {str(error)[:200]}", f" ({release}, {colour} tool)"))
            continue
        for case in made:
            case.facts["version"] = f"{package} {release}"
        cases += made
    _reset_logging()
    return cases, skipped


def _reset_logging() -> None:
    """Undo what a peer did to logging when it was set up: no call is timed with a log line that nobody asked for."""
    root = logging.getLogger()
    root.handlers.clear()
    root.setLevel(logging.WARNING)


async def _checked(name: str, call: Call, colour: str) -> Case:
    before = runs[0]
    answer = call(GOOD)
    is_awaited = isinstance(answer, Awaitable)
    answer = await finished(answer)
    if runs[0] - before != 1:
        raise RuntimeError(f"{name} ran the tool {runs[0] - before} times, not once")
    if "RF-ORD-00412345" not in _seen(answer):
        raise RuntimeError(f"{name} did not answer the tool's result")
    return Case(name, colour, lambda: call(GOOD), VALIDATE, is_awaited)


def _seen(answer: Any) -> str:
    """Answer all the text that an answer may carry, whatever object the peer wraps it in."""
    texts = [repr(answer), *[repr(getattr(answer, name, "")) for name in ("value", "content", "result", "text")]]
    return " ".join(texts + [_seen(item) for item in answer] if isinstance(answer, (list, tuple)) else texts)
