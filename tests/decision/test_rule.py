"""Decision: thresholds against counting one by one, calibration against scikit-learn's, rows with costs, extremes."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from adacsl import CostMatrix, Decision
from adacsl.decision.calibration import calibrate, fit_calibration, uncalibrate
from adacsl.decision.rule import DECIDE

COSTS = CostMatrix(fp=1, fn=8)
EXTREME = st.sampled_from([1e-9, 1.0, 1e9])


def made(n=400, seed=0, sharpen=1.0):
    """Return scores, too sure (above 1) or too shy, and labels."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.7, 2.0, n)
    y = (rng.random(n) < p).astype(np.int64)
    y[:2] = 0, 1
    odds = (p / (1 - p)) ** sharpen
    return odds / (1 + odds), y


def fitted(decide, *, seed=1, target_threshold=None, costs=COSTS, **about):
    scores, labels = made(seed=seed)
    return Decision(costs, decide, target_threshold=target_threshold).fit(scores, labels, **about)


# thresholds


@pytest.mark.parametrize("target_threshold", [None, 0.5, 0.03])
@pytest.mark.parametrize("decide", DECIDE)
def test_scores_probabilities_and_decisions_agree(decide, target_threshold):
    decision, scores = fitted(decide, target_threshold=target_threshold), made(seed=2)[0]
    decided = decision.predict(scores)
    proba = decision.probabilities(scores)
    np.testing.assert_array_equal(decided, decision.of_probabilities(proba))
    clear = np.abs(proba - decision.probability_threshold) > 1e-9
    np.testing.assert_array_equal(decided, proba > decision.probability_threshold)
    if decide not in ("negative", "positive"):
        np.testing.assert_array_equal(decided[clear], (scores > decision.threshold_)[clear])
    if decide not in ("half", "raw", "negative", "positive"):
        np.testing.assert_array_equal(decided, COSTS.decide(proba))


def test_the_target_is_the_score_that_means_the_bayes_threshold():
    decision = Decision(COSTS, target_threshold=0.3)
    assert decision.threshold_ == pytest.approx(0.3)
    assert decision.probabilities(np.asarray([0.3]))[0] == pytest.approx(1 / 9)
    # odds are multiplied, by one factor
    s = np.linspace(0.01, 0.99, 50)
    p = decision.probabilities(s)
    np.testing.assert_allclose(p / (1 - p), s / (1 - s) * (1 / 8) / (0.3 / 0.7), rtol=1e-9)
    np.testing.assert_allclose(Decision(COSTS).probabilities(s), s, rtol=1e-12)


def test_half_is_blind_and_raw_looks_at_the_score():
    s = np.asarray([0.2, 0.4, 0.6])
    assert Decision(COSTS, "half").predict(s).tolist() == [0, 0, 1]
    assert Decision(COSTS, "raw", target_threshold=0.5).predict(s).tolist() == [0, 0, 1]
    # of probabilities: a score of 0.5 means 1/9 here, so even odds lie far above it
    assert Decision(COSTS, "half", target_threshold=0.5).predict(np.asarray([0.88, 0.9])).tolist() == [0, 1]
    assert Decision(COSTS, "negative").predict(s).tolist() == [0, 0, 0]
    assert Decision(COSTS, "positive").predict(s).tolist() == [1, 1, 1]


@pytest.mark.parametrize("target_threshold", [None, 0.5])
@pytest.mark.parametrize("weighted", [False, True])
def test_tuned_has_the_lowest_cost_of_all_thresholds(target_threshold, weighted):
    scores, labels = made(seed=3, sharpen=2.0)
    scores = scores.round(2).clip(0.005, 0.995)  # ties
    weight = np.random.default_rng(0).integers(0, 4, 400) if weighted else None
    decision = Decision(COSTS, "tuned", target_threshold=target_threshold).fit(scores, labels, sample_weight=weight)
    lowest = min(COSTS.mean(labels, scores > cut, sample_weight=weight) for cut in [-1.0, *scores])
    for decided in (decision.predict(scores), scores > decision.threshold_):
        assert COSTS.mean(labels, decided, sample_weight=weight) == pytest.approx(lowest)
    # also after the rounding of stored scores
    stored = decision.probabilities(scores).astype(np.float32).astype(np.float64)
    assert COSTS.mean(labels, decision.of_probabilities(stored), sample_weight=weight) == pytest.approx(lowest)


def test_tuned_samples_move_their_own_thresholds_by_one_factor():
    scores, labels = made(seed=4, sharpen=2.0)
    fn = np.random.default_rng(1).uniform(0.5, 40.0, 400)
    own = CostMatrix(fp=np.ones(400), fn=fn)
    decision = Decision(own.averaged(), "tuned").fit(scores, labels, costs=own)
    ratio = scores / (1 - scores) * fn  # above 1: predicting positive is expected to cost less
    lowest = min(own.mean(labels, ratio > factor) for factor in [0.0, *ratio])
    assert own.mean(labels, decision.predict(scores, costs=own)) == pytest.approx(lowest)


def test_samples_with_costs_have_thresholds_of_their_own():
    scores, fn = made()[0], np.linspace(0.5, 50, 400)
    decided = Decision(COSTS).predict(scores, costs=CostMatrix(fp=1.0, fn=fn))
    assert decided.tolist() == (scores * fn > 1 - scores).astype(int).tolist()


@pytest.mark.parametrize("decide", ["bayes", "tuned", "calibrated", "unweighted"])
@given(fp=EXTREME, fn=EXTREME, target_threshold=st.sampled_from([None, 0.5]))
def test_extreme_costs(decide, fp, fn, target_threshold):
    scores, labels = made(60)
    decision = Decision(CostMatrix(fp=fp, fn=fn), decide, target_threshold=target_threshold).fit(scores, labels)
    assert np.isfinite(decision.probabilities(np.asarray([0.0, 1e-12, 0.5, 1.0]))).all()
    decided, costs = decision.predict(scores), decision.costs
    if not 1e-10 < fp / fn < 1e10:
        return  # the Bayes threshold rounds to 0 or 1: so do the probabilities it is compared with
    if decide == "tuned":
        lowest = min(costs.mean(labels, scores > cut) for cut in [-1.0, *scores])
        assert costs.mean(labels, decided) == pytest.approx(lowest, rel=1e-6)
    elif decide != "calibrated" and target_threshold == 0.5:
        np.testing.assert_array_equal(decided, scores > 0.5)
    elif decide != "calibrated" and fn != fp:
        assert set(decided.tolist()) == {int(fn > fp)}


@pytest.mark.parametrize("decide", DECIDE)
def test_written_and_read(decide):
    decision, scores = fitted(decide, target_threshold=0.4), made(seed=5)[0]
    again = Decision.from_dict(json.loads(json.dumps(decision.to_dict())), COSTS)
    np.testing.assert_array_equal(again.probabilities(scores), decision.probabilities(scores))
    np.testing.assert_array_equal(again.predict(scores), decision.predict(scores))
    assert again.threshold_ == decision.threshold_


# weighted and tuned scores: stretched about the threshold


def loss_of(slope, centre, logits, labels):
    return np.mean(np.logaddexp(0.0, np.where(labels == 1, -1.0, 1.0) * (centre + slope * (logits - centre))))


@given(
    seed=st.integers(0, 1000), sharpen=st.floats(0.2, 8.0), fn=st.floats(0.1, 50.0), target_threshold=st.floats(0.05,
    0.95),
    decide=st.sampled_from(["bayes", "tuned"]),
)  # fmt: skip
def test_stretching_predicts_better_and_decides_the_same(seed, sharpen, fn, target_threshold, decide):
    scores, labels = made(seed=seed, sharpen=sharpen)
    costs, fresh = CostMatrix(fp=1, fn=fn), made(seed=seed + 1, sharpen=sharpen)[0]
    decision = Decision(costs, decide, target_threshold=target_threshold, weighted=True).fit(scores, labels)
    before = Decision(costs, target_threshold=decision.mapped)  # the same threshold, nothing stretched
    np.testing.assert_array_equal(decision.predict(fresh), before.predict(fresh))
    np.testing.assert_array_equal(decision.predict(fresh), fresh > decision.threshold_)
    near = min(1e-9, decision.mapped / 10)  # also after the rounding of stored scores
    close = decision.mapped + np.asarray([-near, near])
    stored = decision.probabilities(close).astype(np.float32).astype(np.float64)
    assert decision.of_probabilities(stored).tolist() == [0, 1]
    stretched, plain = decision.probabilities(scores), before.probabilities(scores)
    assert log_loss(labels, stretched) <= log_loss(labels, plain) + 1e-6
    # by brute force: no slope of the log-odds about the Bayes threshold has a smaller log loss
    centre, inside = np.log(1.0 / fn), plain.clip(1e-12, 1.0 - 1e-12)
    logits = np.log(inside / (1.0 - inside))
    slopes = np.exp(np.linspace(-4.0, 2.0, 301))
    best = min(loss_of(slope, centre, logits, labels) for slope in slopes)
    assert log_loss(labels, stretched) == pytest.approx(best, abs=2e-4)
    assert np.all(np.diff(stretched[np.argsort(scores)]) >= -1e-12)  # their order stays


def test_stretching_at_even_odds_is_a_logistic_regression_without_intercept():
    scores, labels = made(2000, sharpen=3.0)
    decision = Decision(CostMatrix(fp=1, fn=1), weighted=True).fit(scores, labels)
    logits = np.log(scores / (1 - scores))[:, None]
    theirs = LogisticRegression(C=1e9, fit_intercept=False).fit(logits, labels).coef_[0, 0]
    assert decision.calibration_["slope"] == pytest.approx(theirs, rel=1e-3)
    weight = np.random.default_rng(0).uniform(size=2000)
    decision.fit(scores, labels, sample_weight=weight)
    theirs = LogisticRegression(C=1e9, fit_intercept=False).fit(logits, labels, sample_weight=weight).coef_[0, 0]
    assert decision.calibration_["slope"] == pytest.approx(theirs, rel=1e-3)


def test_what_is_not_stretched():
    scores, labels = made(sharpen=3.0)
    own = CostMatrix(fp=np.ones(400), fn=np.linspace(1, 20, 400))
    assert Decision(COSTS).fit(scores, labels).calibration_ is None  # scores that are probabilities
    assert Decision(COSTS, "tuned").fit(scores, labels, costs=own).calibration_ is None
    assert Decision(COSTS, target_threshold=0.5, weighted=True).fit(scores[:12], labels[:12]).calibration_ is None


# calibration


@pytest.mark.parametrize("sharpen", [0.3, 3.0])
def test_calibration_mends_scores_that_are_too_sure_or_too_shy(sharpen):
    scores, labels = made(3000, 1, sharpen)
    fresh, truth = made(3000, 2, sharpen)
    decision = Decision(COSTS, "calibrated").fit(scores, labels)
    assert log_loss(truth, decision.probabilities(fresh)) < log_loss(truth, fresh) - 0.01
    assert COSTS.mean(truth, decision.predict(fresh)) <= COSTS.mean(truth, Decision(COSTS).predict(fresh))


def test_calibration_at_its_limits():
    decision, fresh = Decision(COSTS, "calibrated").fit(*made(3000, 1)), made(3000, 2)[0]
    assert np.abs(decision.probabilities(fresh) - fresh).max() < 0.1  # good scores hardly change
    assert fit_calibration(*made(12)) is None  # too few samples
    y = np.tile([0, 1], 50)
    saturated = Decision(COSTS, "calibrated").fit(y.astype(float), y)
    assert np.isfinite(saturated.probabilities(np.asarray([0.0, 0.5, 1.0]))).all()
    falling = {"kind": "logistic", "slope": -1.0, "intercept": 0.0}
    assert np.isnan(uncalibrate(falling, 0.2))
    with pytest.raises(ValueError, match="decide must be one of 'bayes', 'tuned'"):
        Decision(COSTS, "best")


@pytest.mark.parametrize("weighted", [False, True])
def test_the_chosen_calibration_is_scikit_learns(weighted):
    fresh = np.linspace(0.001, 0.999, 300)
    for sharpen, seed in ((0.3, 0), (3.0, 1), (1.0, 2)):
        scores, labels = made(2000, seed, sharpen)
        weight = np.random.default_rng(seed).uniform(0.1, 2.0, 2000) if weighted else None
        result = fit_calibration(scores, labels, weight)
        if result is None:
            continue
        if result["kind"] == "isotonic":
            theirs = IsotonicRegression(out_of_bounds="clip", y_min=0.0, y_max=1.0)
            expected = theirs.fit(scores, labels, sample_weight=weight).predict(fresh)
        else:
            odds = np.log(scores / (1 - scores))[:, None]
            model = LogisticRegression(C=1e6, fit_intercept=result["intercept"] != 0.0, max_iter=1000)
            model.fit(odds, labels, sample_weight=weight)
            expected = model.predict_proba(np.log(fresh / (1 - fresh))[:, None])[:, 1]
        np.testing.assert_allclose(calibrate(result, fresh), expected, atol=1e-6)


def test_bent_scores_want_isotonic_steps_as_scikit_learn_fits_them():
    rng = np.random.default_rng(0)
    scores = rng.random(4000)
    labels = (rng.random(4000) < np.where(scores < 0.5, 0.1, 0.8)).astype(int)
    result = fit_calibration(scores, labels)
    assert result["kind"] == "isotonic"
    theirs = IsotonicRegression(out_of_bounds="clip", y_min=0.0, y_max=1.0).fit(scores, labels)
    fresh = np.linspace(0.0, 1.0, 999)
    np.testing.assert_allclose(calibrate(result, fresh), theirs.predict(fresh), atol=1e-12)
    for cut in (0.05, 0.3, 0.6, 0.99):
        np.testing.assert_array_equal(fresh > uncalibrate(result, cut), calibrate(result, fresh) > cut)
