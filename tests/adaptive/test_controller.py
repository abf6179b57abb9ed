"""The controller: what a step measures, how lambda moves, corrected probabilities, saved states."""

import copy
import json
import math
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from adacsl import AdaCSLController, CostMatrix
from adacsl.adaptive import QuantileBins, SingleBin, UniformBins, step_factor
from adacsl.thresholds import paper_grid

THREE = CostMatrix.from_array(1 - np.eye(3), rows="actual")
COSTS = CostMatrix(fp=1, fn=4)


def case(seed=0, n=80, power=1.5):
    rng = np.random.default_rng(seed)
    scores = rng.random(n)
    labels = (rng.random(n) < scores**power).astype(int)
    labels[:2] = 0, 1
    return scores, labels


def eq7(threshold, target_threshold=0.5):
    return math.exp(-(target_threshold - threshold) / (target_threshold * (1 - target_threshold)))


# one step


def test_weight_starts_as_weighted_cross_entropy_or_as_plain():
    assert AdaCSLController(COSTS).weight == 0.25
    assert AdaCSLController(COSTS, target_threshold=0.2).weight == pytest.approx(1.0)
    assert AdaCSLController(COSTS, target_threshold=COSTS.threshold).weight == pytest.approx(1.0)
    assert AdaCSLController(CostMatrix(fp=3, fn=2, tp=-2, tn=1), target_threshold=0.25).weight == pytest.approx(
        2 / 4 * 3
    )
    assert AdaCSLController(COSTS).lambda_ == 1.0


@pytest.mark.parametrize("target_threshold", [0.2, 0.5, 0.7])
def test_step_follows_equation_8(brute, target_threshold):
    scores, labels = case(1)
    controller = AdaCSLController(COSTS, target_threshold=target_threshold, partition=UniformBins(4))
    step = controller.step(scores, labels)
    expected = 0.0
    for m in range(4):
        member = (scores >= m / 4) & (scores < (m + 1) / 4)
        assert step.sizes[m] == member.sum()
        best = brute.optimum(scores[member], labels[member], fp=1, fn=4)
        assert brute.cost_at(step.thresholds[m], scores[member], labels[member], 1, 4) == best.cost
        assert abs(step.thresholds[m] - target_threshold) == pytest.approx(
            brute.distance(target_threshold, best.intervals), abs=1e-12
        )
        expected += member.sum() * eq7(step.thresholds[m], target_threshold) / len(scores)
    assert step.factor == pytest.approx(expected)
    assert step.lambda_ == controller.lambda_ == step.factor
    assert step.weight == controller.weight == pytest.approx(expected * (1 - target_threshold) / target_threshold / 4)
    assert step.cost == pytest.approx(float(brute.cost_at(target_threshold, scores, labels, 1, 4)) / len(scores))


@pytest.mark.parametrize(("dtype", "target_threshold"), [(np.float64, 0.5), (np.float32, 0.3), (np.float16, 0.3)])
def test_score_on_the_target_counts_as_negative(dtype, target_threshold):
    scores = np.array([0.0, target_threshold, target_threshold, 1.0], dtype=dtype)
    assert (
        AdaCSLController(COSTS, target_threshold=target_threshold).step(scores, [0, 0, 1, 1]).cost == 1.0
    )  # one false negative of 4, 4 samples


def test_lambda_accumulates_and_reset_forgets():
    controller = AdaCSLController(COSTS)
    factors = [controller.step(*case(seed)).factor for seed in range(4)]
    assert controller.lambda_ == pytest.approx(math.prod(factors))
    assert [a.factor for a in controller.history] == factors
    assert isinstance(controller.history, tuple)
    controller.reset()
    assert (controller.lambda_, controller.history) == (1.0, ())


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=12), st.sampled_from([0.3, 0.5]))
def test_factor_is_exactly_one_where_the_optimum_holds_the_target(brute, rows, target_threshold):
    scores = np.array([0.05, 0.97, *[s for s, _ in rows]])
    labels = np.array([0, 1, *[int(y) for _, y in rows]])
    best = brute.optimum(scores, labels, fp=1, fn=4)
    holds = any(low <= target_threshold and (high is None or target_threshold < high) for low, high in best.intervals)
    step = AdaCSLController(COSTS, target_threshold=target_threshold).step(scores, labels)
    assert (step.factor == 1.0) == holds
    if holds:
        assert step.thresholds == (target_threshold,)
        assert step.lambda_ == 1.0
        assert step.converged


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("target_threshold", [0.3, 1 / 3, 0.5])
@pytest.mark.parametrize("partition", [SingleBin(), UniformBins(10), QuantileBins(3)])
def test_factor_is_exactly_one_in_every_precision(dtype, target_threshold, partition):
    scores = torch.tensor([0.02, 0.1, 0.15, 0.9, 0.95, 1.0], dtype=dtype)
    step = AdaCSLController(COSTS, target_threshold=target_threshold, partition=partition).step(
        scores, [0, 0, 0, 1, 1, 1]
    )
    assert step.factor == 1.0
    assert step.cost == 0.0


def test_a_low_bin_without_positives_changes_nothing():
    scores, labels = np.array([0.01, 0.02, 0.03, 0.55, 0.6]), np.array([0, 0, 0, 0, 1])
    step = AdaCSLController(COSTS, partition=UniformBins(10)).step(scores, labels)
    assert step.thresholds == (0.5, 0.55, 0.5)
    assert step.sizes == (3.0, 1.0, 1.0)
    assert step.factor == pytest.approx((3 + eq7(0.55) + 1) / 5)


def test_odds_update_is_the_exact_ratio_and_finite_at_the_ends():
    samples = np.array([0.1, 0.6, 0.7]), np.array([0, 0, 1])
    for settings_, factor in (
        ({"update": "odds"}, 0.6 / 0.4), ({"update": "odds", "target_threshold": 0.2}, 1.5 * 4), ({}, math.exp(0.4)),
    ):  # fmt: skip
        assert AdaCSLController(COSTS, **settings_).step(*samples).factor == pytest.approx(factor)
    low = AdaCSLController(COSTS, update="odds").step([0.0, 0.9, 1.0], [1, 0, 1])
    high = AdaCSLController(CostMatrix(fp=9, fn=1), update="odds").step([0.1, 1.0, 1.0, 1.0], [1, 0, 0, 1])
    assert 0 < low.factor < 1e-5
    assert 1e5 < high.factor < math.inf


@pytest.mark.parametrize("damping", [0.3, 1.0, 2.0])
def test_damping_is_an_exponent(damping):
    data = case(2)
    plain = AdaCSLController(COSTS).step(*data).factor
    assert AdaCSLController(COSTS, damping=damping).step(*data).factor == pytest.approx(plain**damping)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6), fn=st.floats(1e-4, 1e4), target_threshold=st.floats(0.01, 0.99),
    update=st.sampled_from(["exponential", "odds"]),
)  # fmt: skip
def test_lambda_stays_within_a_thousand_unless_bounds_are_wider(seed, fn, target_threshold, update):
    scores, labels = case(seed, n=20)
    usual, wide = (
        AdaCSLController(CostMatrix(fp=1, fn=fn), target_threshold=target_threshold, update=update, bounds=b)
        for b in (None, (1e-30, 1e30))
    )
    for _ in range(20):  # a network that does not react: the same scores again and again
        usual.step(scores, labels)
        wide.step(scores, labels)
    assert usual.bounds == (1e-3, 1e3)
    # one direction only, so that the bound is all that differs
    assert usual.lambda_ == pytest.approx(min(max(wide.lambda_, 1e-3), 1e3), rel=1e-9)


def test_bounds_hold_lambda():
    runaway = [0.1, 0.2, 0.9, 0.95], [0, 0, 0, 1]
    usual, wide, narrow = (AdaCSLController(COSTS, bounds=bounds) for bounds in (None, (1e-9, 1e9), (0.5, 2.0)))
    for controller in (usual, wide, narrow):
        for _ in range(50):
            controller.step(*runaway)
    assert (usual.lambda_, wide.lambda_, narrow.lambda_) == (1e3, 1e9, 2.0)
    assert narrow.history[-1].converged
    for _ in range(9):
        narrow.step([0.1, 0.2, 0.3], [0, 1, 1])
    assert (narrow.lambda_, narrow.weight) == (0.5, 0.125)
    assert AdaCSLController.as_published(COSTS).bounds == (1e-30, 1e30)  # as in the authors' code


def test_runaway_lambda_stays_a_finite_weight():
    for fp, fn in ((1e9, 1e-9), (1e-9, 1e9)):
        controller = AdaCSLController(CostMatrix(fp=fp, fn=fn), target_threshold=0.5)
        for _ in range(200):
            controller.step([0.0, 0.001, 0.999, 1.0], [0, 1, 0, 1])
        assert 0 < np.float32(controller.weight) < np.inf
        assert 0 < 1 / np.float32(controller.weight) < np.inf


def test_converged_uses_the_absolute_change():
    falling = AdaCSLController(COSTS).step([0.1, 0.2, 0.9], [0, 1, 1])
    assert falling.factor < 1
    assert not falling.converged
    assert AdaCSLController(COSTS, tolerance=10).step([0.1, 0.2, 0.9], [0, 1, 1]).converged
    assert AdaCSLController(COSTS).step([0.1, 0.9], [0, 1]).converged


@pytest.mark.parametrize("costs", [COSTS, THREE])
def test_adaptation_can_end_when_lambda_converges(costs):
    def step(controller, seed):
        scores, labels = case(seed)
        if costs is COSTS:
            return controller.step(scores, labels)
        return controller.step(np.random.default_rng(seed).dirichlet([1, 2, 3], 80), np.arange(80) % 3)

    kept, ended = AdaCSLController(costs), AdaCSLController(costs, until="converged")
    assert step(kept, 0) == step(ended, 0)  # a step that moves lambda
    assert not ended.stopped
    for controller in (kept, ended):
        controller.tolerance = 1e9
        assert step(controller, 1).converged
        controller.tolerance = 1e-3
    assert ended.stopped
    assert not kept.stopped
    before = ended.lambdas
    going, held = step(kept, 2), step(ended, 2)
    assert not going.converged
    assert held.converged
    np.testing.assert_array_equal(ended.lambdas, before)
    assert held.cost == going.cost  # what is measured is reported all the same
    assert len(ended.history) == 3
    ended.reset()
    assert not ended.stopped


def test_the_end_of_the_adaptation_is_part_of_the_state():
    ended = AdaCSLController(COSTS, until="converged", tolerance=10)
    ended.step(*case(0))
    again = AdaCSLController(COSTS, until="converged", tolerance=10)
    again.load_state_dict(json.loads(json.dumps(ended.state_dict())))
    assert again.stopped
    with pytest.raises(ValueError, match="saved with until='converged', this controller has until='end'"):
        AdaCSLController(COSTS, tolerance=10).load_state_dict(ended.state_dict())
    with pytest.raises(ValueError, match="until must be one of 'end', 'converged', got 'never'"):
        AdaCSLController(COSTS, until="never")


def test_candidates_confine_the_search():
    scores, labels = np.array([0.1, 0.512, 0.9]), np.array([0, 0, 1])
    grid = {"candidates": [0.6, 0.7, 0.8], "target_threshold": 0.9}
    for settings_, threshold in (
        ({}, 0.512), ({"candidates": paper_grid()}, 0.515), (grid | {"ties": "lowest"}, 0.6), (grid, 0.8),
    ):  # fmt: skip
        assert AdaCSLController(COSTS, **settings_).step(scores, labels).thresholds == (threshold,)
    assert AdaCSLController(COSTS, ties="lowest").step([0.3, 0.8], [0, 1]).thresholds == (0.3,)


def test_search_in_the_subgroup_keeps_to_its_interval():
    scores, labels = np.array([0.15, 0.18, 0.95, 0.97]), np.array([0, 0, 1, 1])
    inside = AdaCSLController(COSTS, partition=UniformBins(10), search="subgroup").step(scores, labels)
    everywhere = AdaCSLController(COSTS, partition=UniformBins(10)).step(scores, labels)
    assert inside.thresholds == (0.2, 0.9)
    assert everywhere.thresholds == (0.5, 0.5)


def test_any_callable_partitions(library):
    scores, labels = case(3)
    by_parity = AdaCSLController(COSTS, partition=lambda s: (s > 0.4) * 7).step(scores, labels)
    low, high = scores <= 0.4, scores > 0.4
    factors = [AdaCSLController(COSTS).step(scores[m], labels[m]).factor * m.sum() / len(scores) for m in (low, high)]
    assert by_parity.factor == pytest.approx(sum(factors))
    assert by_parity.sizes == (float(low.sum()), float(high.sum()))


def test_step_with_costs_of_the_samples(brute):
    scores, labels = case(4)
    amounts = np.random.default_rng(0).integers(1, 9, len(scores)).astype(float)
    own, mean = CostMatrix(fp=1, fn=amounts), CostMatrix(fp=1, fn=amounts.mean())
    odds = scores / (1 - scores) * amounts / amounts.mean()  # decided at one threshold, each is at its own
    moved = odds / (1 + odds)
    best = brute.optimum(moved, labels, fp=1, fn=amounts)
    for data in ((scores, labels), (torch.tensor(scores), torch.tensor(labels))):
        step = AdaCSLController(mean).step(*data, costs=own)
        assert brute.cost_at(step.thresholds[0], moved, labels, 1, amounts) == best.cost
        assert step.cost == pytest.approx(float(brute.cost_at(0.5, moved, labels, 1, amounts)) / len(scores))
        raw = AdaCSLController(mean, instance_weighted=True).step(*data, costs=own)  # the loss has moved them
        assert brute.cost_at(raw.thresholds[0], scores, labels, 1, amounts) == (
            brute.optimum(scores, labels, fp=1, fn=amounts).cost
        )


# invariances


def test_all_libraries_take_the_same_steps(library):
    ours, other = (AdaCSLController(COSTS, partition=QuantileBins(5), target_threshold=0.4) for _ in range(2))
    for seed in range(5):
        scores, labels = case(seed)
        ours.step(scores, labels)
        other.step(library.asarray(scores), library.asarray(labels))
    assert other.history == ours.history


@pytest.mark.parametrize("partition", [SingleBin(), UniformBins(5), QuantileBins(5)])
def test_order_scale_and_duplication_change_no_step(partition):
    scores, labels = case(6, n=100)
    plain = AdaCSLController(COSTS, partition=partition).step(scores, labels)
    order = np.random.default_rng(0).permutation(100)
    assert AdaCSLController(COSTS, partition=partition).step(scores[order], labels[order]) == plain
    scaled = AdaCSLController(CostMatrix(fp=16, fn=64), partition=partition).step(scores, labels)
    assert (scaled.factor, scaled.thresholds, scaled.cost) == (plain.factor, plain.thresholds, 16 * plain.cost)
    twice = AdaCSLController(COSTS, partition=partition).step(np.tile(scores, 2), np.tile(labels, 2))
    assert (twice.factor, twice.thresholds, twice.cost) == (plain.factor, plain.thresholds, plain.cost)


@pytest.mark.parametrize("partition", [SingleBin(), UniformBins(5)])
def test_weights_equal_repeated_and_removed_samples(partition):
    scores, labels = case(7, n=60)
    weight = np.random.default_rng(1).integers(0, 3, 60)
    weight[:2] = 1
    repeated = AdaCSLController(COSTS, partition=partition).step(np.repeat(scores, weight), np.repeat(labels, weight))
    weighted = AdaCSLController(COSTS, partition=partition).step(scores, labels, sample_weight=weight)
    assert weighted.factor == pytest.approx(repeated.factor)
    assert weighted.cost == pytest.approx(repeated.cost)
    assert sum(weighted.sizes) == sum(repeated.sizes)


def test_transposed_costs_step_the_other_way():
    scores, labels = case(8, n=400, power=1)
    right = AdaCSLController(CostMatrix(fp=1, fn=6)).step(scores, labels)
    swapped = AdaCSLController(CostMatrix(fp=6, fn=1)).step(scores, labels)
    assert right.factor < 1 < swapped.factor


def test_feedback_moves_the_optimal_threshold_to_the_target():
    """A model that follows the weight exactly is adapted to T' and stays there."""
    rng = np.random.default_rng(0)
    posterior = rng.beta(0.6, 1.8, 4000)
    labels = (rng.random(4000) < posterior).astype(int)
    controller = AdaCSLController(COSTS)
    bias = 2.5  # the model overestimates the odds of the positives by this factor
    for _ in range(25):
        odds = bias * posterior / (1 - posterior) / controller.weight
        step = controller.step(odds / (1 + odds), labels)
    assert step.converged
    assert controller.lambda_ == pytest.approx(bias, rel=0.25)
    assert step.thresholds[0] == pytest.approx(0.5, abs=0.01)


# corrected probabilities


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("target_threshold", [0.5, 0.3, 0.9])
@pytest.mark.parametrize(
    ("fp", "fn"), [(1, 1), (1, 8), (8, 1), (1, 3), (1, 1000), (1e6, 1), (1e9, 1), (1, 1e9), (1e-9, 1e9), (0.1, 0.7)]
)
def test_deciding_at_t_on_corrected_equals_deciding_at_target_on_raw(dtype, target_threshold, fp, fn):
    goal = dtype(target_threshold)
    near = goal + np.arange(-8, 9).astype(dtype) * np.spacing(goal)
    raw = np.concatenate([near, [0.0, 1.0], np.linspace(0, 1, 97)]).astype(dtype)
    costs = CostMatrix(fp=fp, fn=fn)
    corrected = AdaCSLController(costs, target_threshold=target_threshold).correct(raw)
    assert corrected.dtype in (np.float32, np.float64)
    assert np.all((corrected >= 0) & (corrected <= 1))
    wanted = raw > goal
    np.testing.assert_array_equal(corrected > costs.threshold, wanted)
    np.testing.assert_array_equal(corrected.astype(np.float64) > costs.threshold, wanted)
    np.testing.assert_array_equal(costs.decide(corrected), wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_correct_takes_torch_tensors(dtype):
    raw = torch.linspace(0, 1, 301).to(dtype)
    costs = CostMatrix(fp=1, fn=7)
    corrected = AdaCSLController(costs, target_threshold=0.4).correct(raw)
    assert corrected.dtype == torch.float32
    assert torch.equal(corrected > costs.threshold, raw > 0.4)


def test_correct_undoes_the_weighting():
    posterior = np.linspace(0.001, 0.999, 400)
    for target_threshold in (0.2, 0.5):
        controller = AdaCSLController(CostMatrix(fp=2, fn=9), target_threshold=target_threshold)
        odds = posterior / (1 - posterior) / controller.weight  # what the weighted loss makes of them (Theorem 2)
        np.testing.assert_allclose(controller.correct(odds / (1 + odds)), posterior, rtol=1e-9)


def test_correct_leaves_lambda_out():
    controller = AdaCSLController(COSTS)
    before = controller.correct(np.array([0.2, 0.5, 0.9]))
    controller.step([0.1, 0.7, 0.9], [0, 0, 1])
    assert controller.lambda_ != 1
    np.testing.assert_array_equal(controller.correct([0.2, 0.5, 0.9]), before)
    np.testing.assert_allclose(before, [0.05 / 0.85, 0.2, 0.225 / 0.325])


def test_correct_is_monotone_and_keeps_the_shape(library):
    raw = np.linspace(0, 1, 60).reshape(20, 3)
    corrected = library.to_numpy(AdaCSLController(COSTS).correct(library.asarray(raw)))
    assert corrected.shape == (20, 3)
    assert np.all(np.diff(corrected.ravel()) >= 0)
    assert AdaCSLController(COSTS).correct([0, 1]).tolist() == [0.0, 1.0]


# state


def drive(controller, seeds):
    for seed in seeds:
        controller.step(*case(seed))
    return controller


def test_a_state_saved_as_json_continues():
    settings = {"partition": UniformBins(5), "target_threshold": 0.4, "bounds": (0.1, 9), "candidates": paper_grid()}
    first = drive(AdaCSLController(COSTS, **settings), range(3))
    text = json.dumps(first.state_dict(), allow_nan=False)
    second = AdaCSLController(COSTS, **settings)
    second.load_state_dict(json.loads(text))
    assert second.history == first.history
    assert json.dumps(second.state_dict()) == text
    assert drive(second, range(3, 6)).history == drive(first, range(3, 6)).history


def test_state_is_a_copy():
    controller = drive(AdaCSLController(COSTS), range(2))
    state = controller.state_dict()
    state["history"][0]["thresholds"].append(0.7)
    state["lambda"] = 7
    assert len(controller.history[0].thresholds) == 1
    assert controller.lambda_ != 7


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda s: s.pop("lambda"), "expected the keys version, settings, lambda and history"),
        (lambda s: s.update(extra=1), "expected the keys"),
        (lambda s: s.update(version=2), "the state has version 2, this adacsl reads version 1"),
        (lambda s: s.update({"lambda": float("nan")}), "saved lambda must be a number"),
        (lambda s: s.update({"lambda": -1.0}), "saved lambda must be a number"),
        (lambda s: s.update({"lambda": "1"}), "saved lambda must be a number"),
        (lambda s: s.update({"lambda": True}), "saved lambda must be a number"),
        (lambda s: s.update(settings=None), "saved settings must be a dict"),
        (
            lambda s: s["settings"].update(target_threshold=0.4),
            "saved with target_threshold=0.4, this controller has target_threshold=0.5",
        ),
        (lambda s: s["settings"].pop("damping"), "saved with damping=None"),
        (lambda s: s["settings"].update(costs={}), "saved with costs="),
        (lambda s: s.update(history=3), "saved history cannot be read"),
        (lambda s: s.update(history=[{}]), "saved history cannot be read"),
        (lambda s: s["history"][0].pop("factor"), "saved history cannot be read"),
        (lambda s: s["history"][0].update(spin=1), "saved history cannot be read"),
        (lambda s: s["history"][0].update(thresholds=["a"]), "saved history cannot be read"),
    ],
)
def test_damaged_state_is_refused_and_changes_nothing(damage, message):
    state = drive(AdaCSLController(COSTS), range(2)).state_dict()
    damage(state)
    controller = drive(AdaCSLController(COSTS), [5])
    before = controller.state_dict()
    with pytest.raises(ValueError, match=message):
        controller.load_state_dict(state)
    assert controller.state_dict() == before


@pytest.mark.parametrize("state", [None, [], "state", {}])
def test_something_else_is_no_state(state):
    with pytest.raises(ValueError, match="the state is not that of an AdaCSLController"):
        AdaCSLController(COSTS).load_state_dict(state)


def test_copies_are_independent():
    controller = drive(AdaCSLController(COSTS, partition=QuantileBins(3)), range(2))
    for other in (copy.deepcopy(controller), pickle.loads(pickle.dumps(controller))):  # noqa: S301
        assert other.history == controller.history
        other.step(*case(9))
        assert len(controller.history) == 2


def test_history_becomes_a_frame():
    controller = drive(AdaCSLController(COSTS), range(3))
    frame = controller.to_frame()
    assert frame["lambda_"].tolist() == [a.lambda_ for a in controller.history]
    assert list(frame.columns) == ["lambda_", "factor", "weight", "thresholds", "sizes", "cost", "converged"]
    assert AdaCSLController(COSTS).to_frame().empty


def test_repr_shows_lambda():
    assert repr(AdaCSLController(COSTS)) == "AdaCSLController(CostMatrix(fp=1, fn=4), target_threshold=0.5, lambda=1)"


# the factor


@pytest.mark.parametrize("target_threshold", [0.1, 0.5, 0.9])
def test_step_factor_is_equation_7(target_threshold):
    for threshold in (0.0, 0.2, 0.5, 0.9, 1.0):
        assert step_factor(threshold, target_threshold) == pytest.approx(eq7(threshold, target_threshold))
    assert step_factor(target_threshold, target_threshold) == 1.0
    assert step_factor(target_threshold, target_threshold, update="odds") == 1.0
    assert math.isfinite(step_factor(1.0, 1e-6))
    assert step_factor(0.0, 1 - 1e-6) > 0


# what is refused


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"scores": [0.1, np.nan]}, ValueError, "validation scores must be finite, got nan at position 1"),
        ({"scores": [0.1, -np.inf]}, ValueError, "validation scores must be finite, got -inf"),
        ({"scores": [0.1, 7.0]}, ValueError, r"validation scores must be probabilities in \[0, 1\]"),
        ({"labels": [0, 2]}, ValueError, "labels must be 0 or 1, got 2"),
        ({"labels": [1, 1]}, ValueError, "needs both classes in the validation set, but all 2 labels are 1"),
        ({"labels": [0, 0]}, ValueError, "but all 2 labels are 0; use a larger or stratified validation set"),
        ({"sample_weight": [1, 0]}, ValueError, "needs both classes in the validation set, but all 1 labels are 0"),
        ({"scores": [], "labels": []}, ValueError, "validation scores is empty"),
        ({"labels": [0, 1, 1]}, ValueError, "labels has 3 entries, expected 2"),
        ({"scores": [[0.1], [0.9]]}, ValueError, "validation scores must be one-dimensional"),
        ({"sample_weight": [1, -1]}, ValueError, "sample_weight must not be negative"),
        ({"costs": CostMatrix(fp=[1, 2, 3], fn=1)}, ValueError, "belong to 3 samples, got 2"),
        ({"labels": ["cat", "dog"]}, TypeError, "labels must be numbers"),
    ],
)  # fmt: skip
def test_step_refuses_and_changes_nothing(change, error, message):
    controller = AdaCSLController(COSTS)
    with pytest.raises(error, match=message):
        controller.step(**({"scores": [0.1, 0.9], "labels": [0, 1]} | change))
    assert (controller.lambda_, controller.history) == (1.0, ())


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"costs": [[0, 1], [1, 0]]}, TypeError, "costs must be a CostMatrix"),
        ({"costs": THREE, "target_threshold": 0.3}, ValueError, "with 3 classes target is one of 'bayes'"),
        ({"costs": THREE, "partition": UniformBins(3)}, ValueError, "partition is for two classes, these costs have 3"),
        ({"costs": THREE, "search": "subgroup"}, ValueError, "search is for two classes"),
        ({"costs": CostMatrix(fp=[1, 2], fn=1)}, ValueError, "one weight for all samples: give class-wide costs"),
        ({"target_threshold": 0}, ValueError, "target_threshold must lie strictly between"),
        ({"partition": 10}, TypeError, "partition must be callable"),
        ({"update": "linear"}, ValueError, "update must be one of 'exponential', 'odds', got 'linear'"),
        ({"search": "bin"}, ValueError, "search must be one of"),
        ({"ties": "first"}, ValueError, "ties must be one of"),
        ({"damping": 0}, ValueError, "damping must be a positive number"),
        ({"tolerance": float("nan")}, ValueError, "tolerance must be a positive number"),
        ({"bounds": (2, 3)}, ValueError, "bounds must enclose lambda's start"),
        ({"bounds": (0, 3)}, ValueError, "bounds must enclose lambda's start"),
        ({"search": "subgroup", "partition": lambda s: s > 0}, TypeError, "needs a partition with edges"),
        ({"candidates": ["a"]}, TypeError, "candidates must be numbers"),
    ],
)  # fmt: skip
def test_settings_are_checked(settings, error, message):
    with pytest.raises(error, match=message):
        AdaCSLController(**({"costs": COSTS} | settings))


@pytest.mark.parametrize(
    ("values", "message"),
    [([0.1, np.nan], "must be finite"), ([1.5], r"must be probabilities in \[0, 1\]"), ([], "probabilities are empty")],
)
def test_correct_refuses(values, message):
    with pytest.raises(ValueError, match=message):
        AdaCSLController(COSTS).correct(values)


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.500001, 0.9]), st.booleans()), min_size=2, max_size=12),
    st.sampled_from([0.1, 0.5, 0.9]),
    st.booleans(),
)
def test_one_group_searched_as_one_is_one_group_among_subgroups(rows, target_threshold, weighted):
    scores, labels = (np.asarray(column) for column in zip(*rows, strict=True))
    labels = labels.astype(int)
    labels[:2] = (0, 1)
    scores = scores.astype(np.float32)
    weight = np.linspace(0.5, 2.0, len(labels)) if weighted else None
    costs = CostMatrix(fp=1, fn=4, tp=-0.5)
    short = AdaCSLController(costs, target_threshold=target_threshold)
    general = AdaCSLController(
        costs, target_threshold=target_threshold, partition=lambda scores: np.zeros(len(scores), dtype=int)
    )
    one = short.step(scores, labels, sample_weight=weight)
    other = general.step(scores, labels, sample_weight=weight)
    assert one.thresholds == other.thresholds
    assert (one.lambda_, one.cost) == (other.lambda_, other.cost)
    assert one.sizes == pytest.approx(other.sizes, rel=1e-12)  # summed in another order


def test_standard_errors_stop_a_controller_until_there_is_evidence():
    few = ([0.1] * 40 + [0.45] + [0.9] * 20, [0] * 40 + [1] + [1] * 20)
    many = ([0.1] * 40 + [0.45] * 8 + [0.9] * 20, [0] * 40 + [1] * 8 + [1] * 20)
    assert AdaCSLController(COSTS).step(*few).factor < 1.0
    assert AdaCSLController(COSTS, n_standard_errors=1.0).step(*few).factor == 1.0
    assert AdaCSLController(COSTS, n_standard_errors=1.0).step(*many).factor < 1.0
    bins = AdaCSLController(COSTS, n_standard_errors=1.0, partition=UniformBins(2))
    assert bins.step(*few).factor == 1.0
    # the reported cost is that of deciding at T', whatever the estimate
    assert AdaCSLController(COSTS, n_standard_errors=1.0).step(*few).cost == AdaCSLController(COSTS).step(*few).cost


@pytest.mark.parametrize("moved", [1e-3, 0.2, 7.0, 1e3])
def test_without_evidence_lambda_returns_to_one(moved):
    quiet = ([1e-5] * 40 + [1 - 1e-5] * 20, [0] * 40 + [1] * 20)
    controller = AdaCSLController(COSTS, n_standard_errors=2.0, update="odds")
    controller._lambdas = np.asarray([moved, 1.0])
    assert controller.step(*quiet).lambda_ == pytest.approx(1.0, rel=1e-5)
    # the paper's controller stays where it is
    controller = AdaCSLController(COSTS, update="odds")
    controller._lambdas = np.asarray([moved, 1.0])
    assert controller.step(*quiet).lambda_ == moved


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("moved", [1e-30, 1e30])
def test_a_runaway_lambda_with_standard_errors_stays_a_number(dtype, moved):
    controller = AdaCSLController(COSTS, n_standard_errors=2.0)
    controller._lambdas = np.asarray([moved, 1.0])
    scores = torch.tensor([0.1] * 40 + [0.45] + [0.9] * 20, dtype=dtype)
    assert math.isfinite(controller.step(scores, [0] * 40 + [1] * 21).weight)


def test_standard_errors_are_part_of_the_state_and_exclude_lowest_ties():
    state = json.loads(json.dumps(AdaCSLController(COSTS, n_standard_errors=1.0).state_dict()))
    AdaCSLController(COSTS, n_standard_errors=1.0).load_state_dict(state)
    with pytest.raises(ValueError, match=r"saved with n_standard_errors=1\.0"):
        AdaCSLController(COSTS).load_state_dict(state)
    with pytest.raises(ValueError, match="choose one of them"):
        AdaCSLController(COSTS, n_standard_errors=1.0, ties="lowest")


def test_measuring_without_adapting_leaves_everything_as_it_is():
    controller = AdaCSLController(CostMatrix(fp=1, fn=4), partition=UniformBins(2))
    rows = [0.1, 0.4, 0.6, 0.7, 0.9], [0, 1, 0, 0, 1]
    moved = controller.step(*rows)
    state = controller.state_dict()
    seen = controller.step(*rows, adapt=False)
    assert controller.state_dict() == state
    assert (seen.lambda_, seen.weight, seen.factor) == (moved.lambda_, moved.weight, 1.0)
    assert (seen.cost, seen.thresholds, seen.sizes) == (moved.cost, moved.thresholds, moved.sizes)
    assert seen.threshold == pytest.approx(np.average(seen.thresholds, weights=seen.sizes))
