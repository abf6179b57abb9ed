"""loss="instance-weighted": each row weighs what its own error costs, in every learner."""

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression, SGDClassifier

import adacsl
from adacsl import CostMatrix, CostSensitiveClassifier, Decision, EnsembleClassifier, method
from adacsl.base.scores import to_probabilities
from adacsl.ensemble.base_estimators import default_estimators
from adacsl.ensemble.stacking import fit_stack, stack_estimators
from adacsl.estimators.fit import fit_methods
from adacsl.fitting.rows import Rows
from adacsl.learners.boosting import BoostingLearner
from adacsl.learners.sklearn import SklearnLearner
from adacsl.neural.learner import NeuralLearner

COSTS = CostMatrix(fp=1, fn=1)
LEARNERS = {
    "logistic": lambda: SklearnLearner(LogisticRegression(C=1e6), encode=False),
    "passes": lambda: SklearnLearner(SGDClassifier(loss="log_loss", random_state=0), max_iter=3, encode=False),
    "xgboost": lambda: BoostingLearner("xgboost", n_estimators=20),
    "lightgbm": lambda: BoostingLearner("lightgbm", n_estimators=20),
    "catboost": lambda: BoostingLearner("catboost", n_estimators=20),
    "network": lambda: NeuralLearner(epochs=4),
}


def drawn(n=3000, seed=0):
    """Return rows whose costs and probabilities are known functions of the features."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    proba = expit(X[:, 0] - X[:, 1] - 1)
    amounts = {"fn": np.exp(1 + X[:, 0]), "fp": np.exp(0.5 * X[:, 1])}
    return X, (rng.random(n) < proba).astype(int), amounts, proba


def classifier(learner="logistic", costs=COSTS, **settings):
    settings = {"loss": "instance-weighted", "random_state": 0, "device": "cpu"} | settings
    return CostSensitiveClassifier(costs, learner=LEARNERS[learner](), **settings)


@pytest.mark.parametrize("controller", [None, "auto"])
def test_corrected_probabilities_are_the_true_ones(controller):
    X, y, amounts, proba = drawn(20_000)
    made = classifier(controller=controller, cv=2 if controller else None).fit(X, y, **amounts)
    result = made.predict_proba(X, **amounts)[:, 1]
    if controller is None:  # lambda is left out of the correction on purpose
        assert np.abs(result - proba).max() < 0.03
    own = CostMatrix(**amounts)
    assert own.mean(y, made.predict(X, **amounts)) < 1.01 * own.mean(y, own.decide(proba))
    assert own.mean(y, made.predict(X, **amounts)) < 0.99 * own.mean(y, made.costs_.decide(proba))
    # what was found out about the target is about these decisions
    held = own.mean(y, own.decide(made.decision_.probabilities(made.oof_scores_, costs=own)))
    assert list(made.target_costs_.values()) == [pytest.approx(held)]


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("controller", [None, {}])
def test_every_learner_decides_each_sample_at_its_own_threshold(learner, controller):
    X, y, amounts, _ = drawn(600)
    made = classifier(learner, controller=controller).fit(X, y, **amounts)
    raw = made.decision_scores(X)
    assert np.array_equal(made.predict(X, **amounts), (raw > made.target_threshold_).astype(int))
    assert np.array_equal(made.predict(X), (raw > made.target_threshold_).astype(int))  # needs no costs
    # the odds of two costs differ by these costs
    own, usual = CostMatrix(**amounts), made.costs_
    alike = made.predict_proba(X, fp=usual.fp, fn=usual.fn)
    moved = logit(made.predict_proba(X, **amounts)[:, 1]) - logit(alike[:, 1])
    by_hand = np.log(amounts["fp"] / usual.fp) - np.log(amounts["fn"] / usual.fn)
    clear = np.abs(logit(raw)) < 12
    assert clear.any()
    assert moved[clear] == pytest.approx(by_hand[clear], abs=1e-4)
    other = classifier(learner, controller=controller, loss="weighted").fit(X, y, **amounts)
    assert not np.allclose(other.decision_scores(X), raw)  # rows weighed something
    assert own.mean(y, made.predict(X, **amounts)) < 0.9 * min(own.mean(y, np.full(len(y), k)) for k in (0, 1))


@pytest.mark.parametrize("learner", ["logistic", "lightgbm", "network"])
def test_without_per_sample_costs_it_is_the_weighted_loss(learner):
    X, y, _, _ = drawn(400)
    one, other = (
        classifier(learner, CostMatrix(fp=1, fn=4), loss=loss).fit(X, y) for loss in ("weighted", "instance-weighted")
    )
    assert np.array_equal(one.decision_scores(X), other.decision_scores(X))
    assert np.array_equal(one.predict_proba(X), other.predict_proba(X))


@pytest.mark.parametrize("decide", ["bayes", "tuned", "calibrated", "unweighted", "half"])
def test_every_way_to_decide(decide):
    X, y, amounts, proba = drawn(4000)
    controller = {} if decide == "unweighted" else None
    made = classifier(decide=decide, controller=controller, target_threshold="bayes").fit(X, y, **amounts)
    if decide != "tuned":  # which moves probabilities, to where their threshold costs least
        assert np.abs(made.predict_proba(X, **amounts)[:, 1] - proba).max() < 0.08
    own = CostMatrix(**amounts)
    if decide == "half":
        likelier = made.predict_proba(X, **amounts)[:, 1] > 0.5
        assert made.estimated_cost_.estimate == pytest.approx(own.mean(y, likelier), rel=0.05)
    else:  # the estimate pays for thresholds that half of the rows have tuned
        assert made.estimated_cost_.estimate < (1.2 if decide == "tuned" else 1.05) * own.mean(y, own.decide(proba))


def test_tuned_is_the_factor_of_lowest_cost_of_all_odds():
    _, y, amounts, _ = drawn(300)
    own = CostMatrix(**amounts)
    usual = own.averaged(y)
    raw = expit(np.random.default_rng(1).normal(size=300))
    decision = Decision(usual, "tuned", target_threshold=0.5, instance_weighted=True).fit(raw, y, costs=own)
    every = np.concatenate(([0.0], np.sort(raw)))
    assert own.total(y, decision.predict(raw, costs=own)) == pytest.approx(min(own.total(y, raw > t) for t in every))
    assert np.array_equal(decision.predict(raw, costs=own), (raw > decision.threshold_).astype(int))


def fit_with_matrices(made, X, y, costs):
    """Fit with a matrix for each sample, as a comparison does, and return the probabilities."""
    rows = Rows(X, y, np.arange(len(y)), costs=costs, n_classes=3)
    made.classes_, made.pos_label_, made.images_ = np.arange(3), None, False
    for _ in fit_methods([(made, costs)], rows):
        pass
    return made.decision_.probabilities(to_probabilities(made.model_.logits(rows.x)), costs=costs)


def test_three_classes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 2))
    logits = np.stack((X[:, 0], X[:, 1], np.zeros(len(X))), axis=1)
    proba = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    y = (rng.random(len(X))[:, None] > proba.cumsum(1)).sum(1)
    table = np.ones((len(X), 3, 3)) * np.exp(np.stack((X[:, 1], 0.5 * X[:, 0], 0 * X[:, 0]), axis=1))[:, None, :]
    table[:, range(3), range(3)] = 0.0
    own = CostMatrix.from_array(table, rows="predicted")
    for learner, target_threshold in (
        ("logistic", "bayes"),
        ("logistic", "half"),
        ("lightgbm", None),
        ("network", None),
    ):
        result = fit_with_matrices(classifier(learner, None, target_threshold=target_threshold), X, y, own)
        if learner == "logistic":
            inside = np.abs(X).max(axis=1) < 1.5
            assert np.abs(result - proba)[inside].max() < 0.06
        assert own.mean(y, own.decide(result)) < 1.15 * own.mean(y, own.decide(proba))


# keeping


@pytest.mark.parametrize("learner", ["logistic", "lightgbm", "network"])
def test_saved_and_read(tmp_path, learner):
    X, y, amounts, _ = drawn(400)
    made = classifier(learner).fit(X, y, **amounts)
    made.save(tmp_path / "model")
    read = adacsl.load(tmp_path / "model", device="cpu")
    assert read.decision_.instance_weighted
    assert read.predict_proba(X, **amounts) == pytest.approx(made.predict_proba(X, **amounts), abs=1e-6)
    assert np.array_equal(read.predict(X, **amounts), made.predict(X, **amounts))


# the ensemble


def test_an_ensemble_gives_its_base_estimators_the_per_sample_costs(tmp_path):
    X, y, amounts, proba = drawn(3000)
    rows = CostSensitiveClassifier(learner=LEARNERS["logistic"](), loss="instance-weighted", select="log-loss")
    plain = CostSensitiveClassifier(learner=LEARNERS["logistic"](), select="log-loss")
    made = EnsembleClassifier(COSTS, estimators={"plain": plain, "rows": rows}, cv=3, n_jobs=1, random_state=0)
    made.fit(X, y, **amounts)
    assert made.model_.by_rows == [False, True]
    assert np.abs(made.predict_proba(X, **amounts)[:, 1] - proba).max() < 0.08
    columns = made.model_.columns(X, np.log(amounts["fp"] / made.costs_.fp) - np.log(amounts["fn"] / made.costs_.fn))
    assert np.abs(columns[:, 0] - columns[:, 1]).max() < 0.6  # both are log-odds of the probability
    alike = made.predict_proba(X, fp=made.costs_.fp, fn=made.costs_.fn)
    assert not np.allclose(alike, made.predict_proba(X, **amounts))
    own = CostMatrix(**amounts)
    assert made.estimated_cost_.estimate < 1.05 * own.mean(y, own.decide(proba))
    made.save(tmp_path / "model")
    read = adacsl.load(tmp_path / "model", device="cpu")
    assert np.array_equal(read.predict(X, **amounts), made.predict(X, **amounts))
    with pytest.raises(ValueError, match="belong to 3 samples"):
        made.predict(X, fp=1.0, fn=np.ones(3))
    some = {name: values[:200] for name, values in amounts.items()}
    frame = made.permutation_cost(X[:200], y[:200], repeats=2, random_state=0, **some)
    paid = CostMatrix(**some).mean(y[:200], made.predict(X[:200], **some))
    assert frame.attrs["base_cost"] == pytest.approx(paid)


@pytest.mark.parametrize(("known", "share"), [(True, 1.0), (False, 0.0)])
def test_a_base_estimator_gives_back_as_much_of_a_cost_as_its_features_predict(known, share):
    X, y, _, proba = drawn(4000)
    amount = np.random.default_rng(5).lognormal(0, 1, len(y)) if not known else np.exp(X[:, 0])
    rows = CostSensitiveClassifier(learner=LEARNERS["logistic"](), loss="instance-weighted", select="log-loss")
    made = EnsembleClassifier(COSTS, estimators={"rows": rows}, cv=3, n_jobs=1, random_state=0).fit(X, y, fn=amount)
    assert made.model_.by_rows == [share]
    assert np.abs(made.predict_proba(X, fn=amount)[:, 1] - proba).max() < 0.08


def test_default_estimators_use_per_sample_costs_only_where_there_are_some():
    usual, rows = (set(default_estimators(images=False, row_costs=given)) for given in (False, True))
    assert not [name for name in usual if name.endswith("-rows")]
    assert rows - usual == {"lightgbm-soft", "lightgbm-instance", "lightgbm-shallow-instance", "net-instance"}
    names = ("net-weighted-instance", "adacsl-instance", "gbm-instance")
    assert {method(name).loss for name in names} == {"instance-weighted"}


def test_the_stack_of_stakes_is_a_logistic_regression_beside_known_odds():
    """Against scikit-learn: with an offset that all rows share, it is the intercept that differs."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=800)
    columns = truth[:, None] + 0.5 * rng.normal(size=(800, 3))
    y = (rng.random(800) < expit(truth)).astype(int)
    weight = rng.uniform(0.5, 2, 800)
    one = fit_stack(columns, y, weight, 0.1)
    other = fit_stack(columns, y, weight, 0.1, np.tile([0.3, 1.0], (800, 1)))
    assert other.weights == pytest.approx(one.weights, abs=1e-4)
    assert other.intercept == pytest.approx(one.intercept - 0.7, abs=1e-4)
    # costs that all samples share are the threshold of the class-wide costs
    by_cut, nested = stack_estimators(columns, y, cut=np.log(2.0), strength=0.1)
    by_costs, others = stack_estimators(columns, y, sample_costs=np.tile([2.0, 1.0], (800, 1)), strength=0.1)
    assert by_costs.weights == pytest.approx(by_cut.weights, abs=1e-4)
    assert others == pytest.approx(nested, abs=1e-3)


def test_free_errors_weigh_nothing_in_the_stack():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=400)
    columns, y = truth[:, None] + 0.5 * rng.normal(size=(400, 2)), (rng.random(400) < expit(truth)).astype(int)
    amounts = rng.uniform(1, 5, (400, 2))
    amounts[:50, 1] = 0.0
    stack, nested = stack_estimators(columns, y, sample_costs=amounts)
    assert np.isfinite(stack.weights).all()
    assert np.isfinite(nested).all()
