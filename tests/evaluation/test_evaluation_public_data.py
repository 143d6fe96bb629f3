"""Real traces with published or computed values; run where ../shared/data is present."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from fcguard.evaluation.aggregate import Partial
from fcguard.evaluation.agreement import mean_pairwise_kappa, unanimous
from fcguard.evaluation.catalogue import Catalogue, ToolSpec
from fcguard.evaluation.evaluate import evaluate
from fcguard.evaluation.gold import Gold, parse_gold
from fcguard.evaluation.importers import tau_bench
from fcguard.evaluation.importers.options import ImportOptions, Wrapper
from fcguard.evaluation.importers.read import read_records, read_trace
from fcguard.evaluation.metrics import Measured, Measures, measure_session
from fcguard.evaluation.trace import CallRecord, Session
from fcguard.evaluation.trials import flips, icc, pass_at_k, pass_hat_k, stability, task_trials
from tests.evaluation.evaluation_builders import SHARED, needs_data

pytestmark = needs_data

TAU = SHARED / "tau_bench"
MCP = SHARED / "livemcpbench"
BFCL = SHARED / "bfcl"
AGENTDOJO = SHARED / "agentdojo"


# --- tau-bench airline, GPT-4o -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Airline:
    gold: Gold
    catalogue: Catalogue
    partial: Partial
    found: tuple[Measured, ...]


@cache
def airline(results_by: Any = "order") -> Airline:
    catalogue = Catalogue.load(TAU / "airline_tools.json")
    path = TAU / "gpt-4o-airline.trajectories.jsonl"
    gold = tau_bench.read_gold(path, catalogue)
    measures = Measures(gold, catalogue)
    run = read_trace(path, options=ImportOptions(results_by=results_by))
    assert run.format == "tau_bench"
    found = tuple(measure_session(session, measures) for session in run)
    assert run.unread.count == 0
    return Airline(gold, catalogue, evaluate(run, measures), found)


def test_tau_bench_pass_hat_k_and_pass_at_k() -> None:
    trials = task_trials(airline().partial)
    assert len(trials) == 50
    assert [round(pass_hat_k(trials, k).require(), 5) for k in (1, 2, 3, 4)] == [0.42, 0.27333, 0.22, 0.2]
    assert [round(pass_at_k(trials, k).require(), 5) for k in (1, 2, 3, 4)] == [0.42, 0.56667, 0.66, 0.72]
    assert [sum(1 for row in trials if row.c == c) for c in range(5)] == [14, 12, 10, 4, 10]


def test_tau_bench_stability_and_alikeness() -> None:
    partial = airline().partial
    rates = [passed / made for _, (passed, made) in sorted(partial.trials.items())]
    assert rates == [0.42, 0.44, 0.40, 0.42]
    assert round(stability(partial).require(), 4) == 0.0389
    assert round(stability(partial).require() * 0.42, 5) == 0.01633
    assert round(icc(task_trials(partial)).require(), 3) == 0.405
    assert flips(task_trials(partial)).k == 26


def test_tau_bench_calls_and_arguments() -> None:
    counts = airline().partial.totals()
    assert (counts["sessions"], counts["passed"], counts["calls"]) == (200, 84, 1164)
    assert counts["valid"] == 1164
    assert not {"invalid", "unparsable", "unknown_tool", "unchecked", "over_broad"} & set(counts)
    assert len(airline().catalogue.tools) == 14


def test_tau_bench_results_belong_to_the_call_before_them() -> None:
    """73 calls share their id with an earlier call of the session, and each is followed by its own result.

    A program that keys results by id gives the earlier of two calls the later result: one error is lost, 6 of 32 repeats
    seem to have another result, and 8 seem to come after a write. Both readings are pinned.
    """
    by_order, by_id = airline().partial.totals(), airline("last_id").partial.totals()
    assert (by_id["errors"], by_order["errors"]) == (72, 73)
    assert (by_id["same_result_repeats"], by_order["same_result_repeats"]) == (26, 31)
    assert (by_id["repeats_after_write"], by_order["repeats_after_write"]) == (8, 6)


def test_tau_bench_exact_repeats() -> None:
    for counts in (airline().partial.totals(), airline("last_id").partial.totals()):
        assert (counts["exact_repeats"], counts["exact_repeat_sessions"]) == (32, 16)
    adjacent = [m for m in airline().found if any(repeat.is_adjacent for repeat in m.repeats)]
    assert (airline().partial.totals()["adjacent_repeats"], len(adjacent)) == (5, 5)


@pytest.mark.parametrize("results_by", ["order", "last_id"])
def test_tau_bench_repeats_without_progress_are_fewer_and_each_is_explained(results_by: Any) -> None:
    repeats = [repeat for measured in airline(results_by).found for repeat in measured.repeats]
    no_progress = [repeat for repeat in repeats if repeat.is_no_progress]
    assert len(repeats) == 32
    assert 0 < len(no_progress) < 32
    assert all(repeat.reasons for repeat in repeats)
    excused = {reason for repeat in repeats if not repeat.is_no_progress for reason in repeat.reasons}
    assert excused == {"result_changed", "write_between", "consumed"}
    counts = airline(results_by).partial.totals()
    assert counts["repeats"] == len(no_progress)
    assert counts["repeat_sessions"] < counts["exact_repeat_sessions"]


def test_tau_bench_repeats_by_reason() -> None:
    counts = airline().partial.totals()
    assert (counts["repeats"], counts["repeat_sessions"]) == (18, 11)
    assert (counts["excused_write_between"], counts["excused_result_changed"], counts["excused_consumed"]) == (6, 1, 9)


def writes(measured: Measured, catalogue: Catalogue) -> list[CallRecord]:
    return [c for c in measured.session.calls if catalogue.effect_of(c) != "read" and c.status == "succeeded"]


@pytest.mark.parametrize(("results_by", "made", "agreed"), [("last_id", 25, 20), ("order", 24, 19)])
def test_tau_bench_sessions_with_a_write_where_gold_has_none(results_by: Any, made: int, agreed: int) -> None:
    data = airline(results_by)
    without = {task.task_id for task in data.gold if all(step.effect == "read" for step in task.paths[0])}
    sessions = [measured for measured in data.found if measured.session.task_id in without]
    wrong = [measured for measured in sessions if writes(measured, data.catalogue)]
    assert (len(without), len(sessions), len(wrong)) == (20, 80, 21)
    assert all(measured.outcome == "failed" and measured.counts["misfires"] for measured in wrong)
    calls = [call for measured in wrong for call in writes(measured, data.catalogue)]
    assert (len(calls), sum(1 for call in calls if call.confirmed_by_human)) == (made, agreed)


@pytest.mark.parametrize(("results_by", "sessions", "passed"), [("last_id", 75, 2), ("order", 71, 1)])
def test_tau_bench_sessions_with_a_write_that_is_not_in_the_gold(results_by: Any, sessions: int, passed: int) -> None:
    found = [measured for measured in airline(results_by).found if measured.counts.get("misfire_not_in_gold")]
    assert (len(found), sum(1 for measured in found if measured.outcome == "passed")) == (sessions, passed)


def test_tau_bench_a_duplicate_after_a_cancellation_is_no_repeated_effect() -> None:
    measured = next(m for m in airline().found if (m.session.task_id, m.session.trial) == ("0", 3))
    tools = {
        **airline().catalogue.tools,
        ("", "cancel_reservation"): ToolSpec(
            "cancel_reservation", effect="write", compensates=frozenset({"book_reservation"})
        ),
        ("", "book_reservation"): ToolSpec(
            "book_reservation", effect="write", business_key=("user_id", "origin", "destination", "flights")
        ),
    }
    found = measure_session(measured.session, Measures(airline().gold, Catalogue(tools)))
    booked = [
        number
        for number, call in enumerate(measured.session.calls)
        if call.tool == "book_reservation" and call.status == "succeeded"
    ]
    kinds = {misfire.position: misfire.kind for misfire in found.misfires.misfires}
    assert [kinds[number] for number in booked] == ["not_in_gold", "effect_repeated", "not_in_gold"]
    exact = {misfire.position: misfire.kind for misfire in measured.misfires.misfires}
    assert exact[booked[2]] == "effect_repeated", "by exact arguments the legitimate one looks like the duplicate"


def test_tau_bench_after_an_error() -> None:
    what = {"last_id": (37, 28, 4, 3, 54), "order": (40, 26, 4, 3, 49)}
    for results_by, expected in what.items():
        seen = {"other tool": 0, "new args": 0, "nothing": 0, "same": 0}
        later = 0
        for measured in airline(results_by).found:
            calls = measured.session.calls
            for position, failed in enumerate(calls):
                if failed.status != "failed":
                    continue
                following = calls[position + 1] if position + 1 < len(calls) else None
                if following is None:
                    seen["nothing"] += 1
                elif following.tool != failed.tool:
                    seen["other tool"] += 1
                else:
                    seen["same" if following.fingerprint == failed.fingerprint else "new args"] += 1
                later += any(c.tool == failed.tool and c.status == "succeeded" for c in calls[position + 1 :])
        assert (*seen.values(), later) == expected


# --- LiveMCPBench ---------------------------------------------------------------------------------------------------

ROUTER = ImportOptions(
    wrappers=(Wrapper("execute-tool", "tool_name", "server_name", "params"),), ignore=frozenset({"route"})
)


def test_livemcpbench_valid_invalid_unknown() -> None:
    catalogue = Catalogue.load(MCP / "mcp_tools.json")
    assert len(catalogue.tools) == 527
    run = read_trace(MCP / "claude-sonnet-4.calls.jsonl", options=ROUTER)
    assert run.format == "tool_list"
    partial = evaluate(run, Measures(None, catalogue))
    counts = partial.totals()
    assert (counts["sessions"], counts["calls"]) == (95, 531)
    assert (counts["valid"], counts["invalid"], counts["unknown_tool"]) == (477, 51, 3)
    assert (counts["exact_repeats"], counts["exact_repeat_sessions"]) == (10, 5)
    assert run.unread.count == 0
    plain = evaluate(read_trace(MCP / "claude-sonnet-4.calls.jsonl"), Measures())
    assert plain.totals()["calls"] == 531 + 283
    by_name: dict[str, set[str]] = {}
    for server, tool in catalogue.tools:
        by_name.setdefault(tool, set()).add(server)
    assert sum(1 for servers in by_name.values() if len(servers) > 1) == 13


def test_livemcpbench_valid_calls_fail_seldom() -> None:
    catalogue = Catalogue.load(MCP / "mcp_tools.json")
    calls = [
        call for session in read_trace(MCP / "claude-sonnet-4.calls.jsonl", options=ROUTER) for call in session.calls
    ]
    failed = [catalogue.check(call).state for call in calls if call.status == "failed"]
    assert failed.count("valid") == 3


def test_livemcpbench_a_server_that_is_not_there_is_not_guessed() -> None:
    catalogue = Catalogue.load(MCP / "mcp_tools.json")
    servers = {server for server, _ in catalogue.tools}
    unknown = [
        call
        for session in read_trace(MCP / "claude-sonnet-4.calls.jsonl", options=ROUTER)
        for call in session.calls
        if catalogue.check(call).state == "unknown_tool"
    ]
    assert sorted(call.identity[0] in servers for call in unknown) == [False, False, True]


def test_livemcpbench_judges() -> None:
    judges = list(json.loads((MCP / "ten_judges_rewards.json").read_text("utf-8")).values())
    passed = sorted(sum(marks.values()) for marks in judges)
    assert (len(judges), passed[0], passed[-1]) == (10, 34, 77)
    assert unanimous(judges).k == 35
    assert unanimous(judges).n == 95
    assert int(mean_pairwise_kappa(judges).require() * 1000) == 445


# --- BFCL -----------------------------------------------------------------------------------------------------------


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (BFCL / name).read_text("utf-8").splitlines() if line.strip()]


def accepted(values: Any) -> Any:
    """Turn BFCL's list of accepted values into a matcher: an empty text among them means that it may be left out."""
    options = [value for value in values if value != ""]
    nested = [
        {key: accepted(item) for key, item in value.items()} if isinstance(value, dict) else {"$exact": value}
        for value in options
    ]
    matcher: Any = {"$one_of": nested} if nested else {"$ignore": True}
    return {"$optional": matcher} if "" in values else matcher


def chosen(values: Any) -> Any:
    """Take the first accepted value of each argument, as a run would send it."""
    first = next((value for value in values if value != ""), None)
    return {key: chosen(item) for key, item in first.items() if item != [""]} if isinstance(first, dict) else first


@pytest.mark.parametrize(
    ("name", "tasks"),
    [
        ("BFCL_v4_live_simple.json", 258),
        ("BFCL_v4_live_parallel_multiple.json", 24),
        ("BFCL_v4_parallel_multiple.json", 200),
    ],
)
def test_bfcl_answers_pass_their_own_gold_in_any_order(name: str, tasks: int) -> None:
    rows, questions = lines(f"possible_answer/{name}"), lines(name)
    assert len(rows) == len(questions) == tasks
    gold_rows, sessions = [], []
    for row in rows:
        steps = [
            {"any_of": [{"tool": tool, "arguments": {key: accepted(value) for key, value in arguments.items()}}]}
            for answer in row["ground_truth"]
            for tool, arguments in answer.items()
        ]
        gold_rows.append({"id": row["id"], "steps": steps, "min_calls": len(steps)})
        calls = [
            {"tool": tool, "args": {key: chosen(value) for key, value in arguments.items() if value != [""]}}
            for answer in reversed(row["ground_truth"])
            for tool, arguments in answer.items()
        ]
        sessions.append({"task_id": row["id"], "calls": calls})
    measures = Measures(parse_gold({"version": 1, "tasks": gold_rows}))
    counts = evaluate(read_records(sessions, "tool_list"), measures).totals()
    assert (counts["passed"], counts.get("substituted", 0), counts.get("extra", 0)) == (tasks, 0, 0)
    nothing = evaluate(read_records([{"task_id": row["id"], "calls": []} for row in rows], "tool_list"), measures)
    assert nothing.totals()["under_tooling"] == tasks


def test_bfcl_irrelevance_is_passed_by_doing_nothing_only() -> None:
    rows = lines("BFCL_v4_irrelevance.json")
    assert len(rows) == 240
    gold = parse_gold(
        {"version": 1, "tasks": [{"id": row["id"], "steps": [{"any_of": [{"tool": "none"}]}]} for row in rows]}
    )
    nothing = evaluate((Session(row["id"], row["id"]) for row in rows), Measures(gold))
    assert nothing.totals()["passed"] == 240
    first = [
        {"task_id": row["id"], "calls": [{"tool": row["function"][0]["name"], "args": {}}]}
        for row in rows
        if row["function"]
    ]
    counts = evaluate(read_records(first, "tool_list"), Measures(gold)).totals()
    assert counts["over_tooling"] == counts["failed"] == len(first)


def test_bfcl_schemas_are_no_json_schema_and_do_not_stop_an_evaluation() -> None:
    assert len(lines("BFCL_v4_multi_turn_base.json")) == 200
    catalogue = Catalogue.load([function for row in lines("BFCL_v4_live_simple.json") for function in row["function"]])
    states = {catalogue.check(CallRecord("1", tool, arguments={})).state for _, tool in catalogue.tools}
    assert states <= {"valid", "invalid", "unchecked"}


# --- AgentDojo ------------------------------------------------------------------------------------------------------

READS = ("get_", "read_", "search_", "list_", "check_", "find_")


def dojo() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((AGENTDOJO / "suites_v1.2.1.json").read_text("utf-8"))
    return content


def steps_of(task: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (row.get("function") or row.get("name"), row.get("args") or row.get("arguments") or {})
        for row in task["ground_truth"]
    ]


def test_agentdojo_counts_and_names() -> None:
    suites = dojo().values()
    assert sum(len(suite["user_tasks"]) for suite in suites) == 97
    assert sum(len(suite["injection_tasks"]) for suite in suites) == 35
    used = {name for suite in suites for task in suite["user_tasks"] for name, _ in steps_of(task)}
    attacked = {name for suite in suites for task in suite["injection_tasks"] for name, _ in steps_of(task)}
    assert attacked - used == {"delete_email", "get_user_information", "remove_user_from_slack"}


def test_agentdojo_authorised_calls_are_no_misfires_and_injected_writes_are() -> None:
    judged = missed = 0
    for name, suite in dojo().items():
        catalogue = Catalogue.of(
            ToolSpec(row["name"], schema=row["parameters"], effect="read" if row["name"].startswith(READS) else "write")
            for row in suite["tools"]
        )
        tasks = {
            task["id"]: tau_bench.actions_task(task["id"], steps_of(task), catalogue, slice=name)
            for task in suite["user_tasks"]
        }
        measures = Measures(Gold(name, tasks), catalogue)
        for task in suite["user_tasks"]:
            calls = [{"tool": tool, "args": arguments, "status": "success"} for tool, arguments in steps_of(task)]
            (honest,) = read_records([{"task_id": task["id"], "calls": calls}], "tool_list")
            assert "misfires" not in measure_session(honest, measures).counts
            for attack in suite["injection_tasks"]:
                extra = [
                    {"tool": tool, "args": arguments, "status": "success"}
                    for tool, arguments in steps_of(attack)
                    if not tool.startswith(READS)
                ]
                if not extra:
                    continue
                (hijacked,) = read_records([{"task_id": task["id"], "calls": calls + extra}], "tool_list")
                judged += 1
                missed += not measure_session(hijacked, measures).counts.get("misfires")
    assert judged == 588
    assert missed == 0
