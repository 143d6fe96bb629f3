"""Trials, intervals, agreement and comparison, against published or brute-force values."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fcguard.evaluation.aggregate import Partial
from fcguard.evaluation.agreement import cohen_kappa, mean_pairwise_kappa, unanimous
from fcguard.evaluation.compare import ALL, compare, holm, permutation_p
from fcguard.evaluation.intervals import bootstrap, rate_interval, upper_bound, wilson
from fcguard.evaluation.trials import TaskTrials, flips, icc, pass_at_k, pass_hat_k, stability, task_trials


@settings(deadline=None)
@given(outcomes=st.lists(st.lists(st.booleans(), min_size=1, max_size=5), min_size=1, max_size=4), k=st.integers(1, 5))
def test_pass_hat_k_is_the_share_of_all_choices_of_k_trials(outcomes: list[list[bool]], k: int) -> None:
    trials = [TaskTrials(len(rows), sum(rows)) for rows in outcomes]
    used = [rows for rows in outcomes if len(rows) >= k]
    strict, lenient = pass_hat_k(trials, k), pass_at_k(trials, k)
    if not used:
        assert strict.state == lenient.state == "not_applicable"
        return
    choices = [list(combinations(rows, k)) for rows in used]
    assert strict.require() == pytest.approx(sum(sum(map(all, c)) / len(c) for c in choices) / len(used))
    assert lenient.require() == pytest.approx(sum(sum(map(any, c)) / len(c) for c in choices) / len(used))
    assert (strict.k, strict.n) == (len(used), len(outcomes))


def test_stability_flips_and_alikeness() -> None:
    partial = Partial(trials={0: (42, 100), 1: (44, 100), 2: (40, 100)})
    assert stability(partial).require() == pytest.approx(0.02 / 0.42)
    assert stability(Partial(trials={0: (1, 2)})).state == "untested"
    assert stability(Partial(trials={0: (0, 2), 1: (0, 2)})).state == "unknown"
    assert flips([TaskTrials(2, 1), TaskTrials(2, 2), TaskTrials(1, 1)]).require() == 0.5
    assert flips([TaskTrials(1, 1)]).state == "untested"
    assert icc([TaskTrials(4, 4), TaskTrials(4, 0)]).require() == 1.0
    assert icc([TaskTrials(4, 4), TaskTrials(4, 4)]).state == "not_applicable"
    assert icc([TaskTrials(4, 4), TaskTrials(3, 0)]).state == "not_applicable"
    assert icc([TaskTrials(2, 1), TaskTrials(2, 1)]).require() == -1.0


def test_trials_can_leave_out_what_was_not_the_agents_fault() -> None:
    partial = Partial(tasks={("", "1"): {"sessions": 3, "passed": 1, "failed": 1, "infra_error": 1}})
    assert task_trials(partial) == [TaskTrials(3, 1)]
    assert task_trials(partial, scored_only=True) == [TaskTrials(2, 1)]
    assert task_trials(Partial(tasks={("", "1"): {"sessions": 1, "infra_error": 1}}), scored_only=True) == []


def test_wilson_has_the_published_value_and_true_ends() -> None:
    found = wilson(8, 10)
    assert (round(found.low, 4), round(found.high, 4)) == (0.4902, 0.9433)
    assert wilson(0, 10).low == 0.0
    assert wilson(10, 10).high == 1.0


def test_none_of_sixty_still_allows_five_percent() -> None:
    assert round(upper_bound(0, 60) * 100, 1) == 4.9
    assert upper_bound(3, 3) == 1.0
    assert round(upper_bound(1, 10), 4) == 0.3942


@pytest.mark.parametrize(("k", "n"), [(0, 0), (-1, 5), (6, 5)])
def test_impossible_counts_are_refused(k: int, n: int) -> None:
    with pytest.raises(ValueError, match="of"):
        wilson(k, n)
    with pytest.raises(ValueError, match="of"):
        upper_bound(k, n)


def test_the_bootstrap_draws_tasks_and_gives_the_same_answer_each_time() -> None:
    alike = [(4, 4)] * 10 + [(0, 4)] * 10
    found = bootstrap(alike)
    assert found == bootstrap(alike)
    uneven = [(number % 5, 4) for number in range(23)]
    assert bootstrap(uneven, resamples=51) != bootstrap(uneven, resamples=51, seed=1)
    independent = wilson(40, 80)
    assert found.high - found.low > 1.5 * (independent.high - independent.low), "trials of one task are alike"
    with pytest.raises(ValueError, match="nothing|anything"):
        bootstrap([(0, 0)])


def test_the_interval_suits_the_trials() -> None:
    once = rate_interval([(1, 1), (0, 1), (1, 1)])
    several = rate_interval([(1, 2), (0, 2), (2, 2)])
    none = rate_interval([(0, 4), (0, 4)])
    every = rate_interval([(4, 4), (4, 4)])
    assert once is not None
    assert several is not None
    assert none is not None
    assert every is not None
    assert [once.method, several.method, none.method] == ["wilson", "clustered_bootstrap", "exact_upper"]
    assert (none.low, every.high) == (0.0, 1.0)
    assert none.high == pytest.approx(1 - math.sqrt(0.05))
    assert every.low == pytest.approx(math.sqrt(0.05))
    assert rate_interval([]) is None
    assert rate_interval([(1, 3)]) is None


def test_kappa_has_the_textbook_value() -> None:
    # 20 both yes, 15 both no, 5 and 10 apart: kappa = (0.7 - 0.5) / 0.5.
    first = [1] * 20 + [1] * 5 + [0] * 10 + [0] * 15
    second = [1] * 20 + [0] * 5 + [1] * 10 + [0] * 15
    judges = [{str(i): mark for i, mark in enumerate(marks)} for marks in (first, second)]
    assert cohen_kappa(*judges).require() == pytest.approx(0.4)
    assert mean_pairwise_kappa(judges).require() == pytest.approx(0.4)
    assert unanimous(judges).require() == 0.7
    assert cohen_kappa({"a": 1}, {"b": 1}).state == "not_applicable"
    assert cohen_kappa({"a": 1}, {"a": 1}).state == "not_applicable"
    assert mean_pairwise_kappa([{"a": 1}]).state == "not_applicable"
    assert unanimous([]).state == "not_applicable"


def test_holm_adjusts_in_steps() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_a_permutation_test_counts_the_signs() -> None:
    assert permutation_p([1.0, 1.0, 1.0]) == 1 / 8
    assert permutation_p([1.0, -1.0]) == 3 / 4
    assert permutation_p([0.0, 0.0]) == 1.0
    assert permutation_p([]) == 1.0
    many = [1.0] * 30
    assert permutation_p(many) == permutation_p(many)
    assert permutation_p(many) < 0.001
    assert permutation_p([-1.0] * 30) > 0.99


def rates(*passed: int, of: int = 4, slice: str = "") -> dict[tuple[str, str], tuple[int, int]]:
    return {(slice, str(task)): (c, of) for task, c in enumerate(passed)}


def test_the_same_run_passes_and_a_broken_one_fails() -> None:
    base = rates(*[4, 3, 2, 4] * 10)
    (same,) = compare(base, base)
    assert (same.slice, same.decision, same.tasks, same.more_prompts) == (ALL, "pass", 40, None)
    assert compare(base, base, margin=0.0)[0].decision == "pass"
    (worse,) = compare(base, rates(*[1, 0, 1, 0] * 10))
    assert worse.decision == "fail"
    assert worse.after < worse.before


def test_few_tasks_do_not_decide_and_the_needed_number_is_told() -> None:
    (found,) = compare(rates(4, 4, 2, 3), rates(4, 3, 3, 3))
    assert found.decision == "inconclusive"
    assert found.more_prompts is not None
    assert found.more_prompts > 0
    assert compare(rates(4), rates(3))[0].more_prompts is None
    (nothing,) = compare(rates(1), {})
    assert (nothing.tasks, nothing.decision) == (0, "inconclusive")
    (exact,) = compare(rates(4, 4), rates(3, 3), margin=0.25)
    assert exact.more_prompts is None


def test_slices_are_tested_apart_with_adjusted_p_values() -> None:
    good, bad = rates(*[4] * 12, slice="good"), rates(*[4] * 12, slice="bad")
    found = compare({**good, **bad}, {**good, **rates(*[0] * 12, slice="bad")})
    assert [row.slice for row in found] == [ALL, "bad", "good"]
    assert [row.decision for row in found[1:]] == ["fail", "pass"]
    assert found[1].p_worse == pytest.approx(2 / 2**12)
