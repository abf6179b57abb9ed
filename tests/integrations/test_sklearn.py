"""scikit-learn: AdaCSLClassifier around any estimator, and the cost as a score."""

import functools
import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    RepeatedStratifiedKFold,
    TunedThresholdClassifierCV,
    cross_val_score,
    train_test_split,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from adacsl import AdaCSLController, CostMatrix
from adacsl.adaptive import UniformBins
from adacsl.integrations.sklearn import cost_scorer, mean_cost
from tests.made import adapted_estimator

COSTS = CostMatrix(fp=1, fn=20)


def made_up(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, (X[:, 0] + 0.5 * X[:, 1] ** 2 + rng.normal(size=n) > 1.5).astype(int)


def adapted(estimator, costs=None, **settings):
    return adapted_estimator(estimator, costs, **({"random_state": 0} | settings))


def linear(**settings):
    return adapted(LogisticRegression(), COSTS, **settings)


@pytest.fixture(scope="module")
def data():
    return made_up()


# scikit-learn's own checks

EXPECTED_FAILURES = {"check_classifiers_classes": "the positive class of text labels has to be named"}
REPEATED = {
    f"check_sample_weight_equivalence_on_{kind}_data": "splits differ once samples are repeated or removed"
    for kind in ("dense", "sparse")
}


def of_scikit_learn(estimator, expected):
    """Parametrize a test with the checks of scikit-learn, whose data cause warnings."""

    def mark(test):
        for warning in ("pos_label is not given", ":sklearn.exceptions.DataConversionWarning",
                        ":sklearn.exceptions.ConvergenceWarning"):  # fmt: skip
            test = pytest.mark.filterwarnings(f"ignore:{warning}")(test)
        checks = parametrize_with_checks([estimator], expected_failed_checks=lambda _: expected, xfail_strict=True)
        return checks(test)

    return mark


@of_scikit_learn(adapted(LogisticRegression()), EXPECTED_FAILURES)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.weekly
@of_scikit_learn(adapted(SGDClassifier(loss="log_loss")), EXPECTED_FAILURES | REPEATED)
def test_scikit_learn_checks_of_passes(estimator, check):
    check(estimator)


# any estimator


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("estimator", "training"),
    [
        (LogisticRegression(), "refits"),
        (LinearSVC(), "refits"),
        (GaussianNB(), "refits"),
        (RandomForestClassifier(20, min_samples_leaf=5), "refits"),
        (HistGradientBoostingClassifier(max_iter=20), "refits"),
        (make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), LogisticRegression())), "refits"),
        (SGDClassifier(loss="log_loss"), "passes"),
        (MLPClassifier((8,), max_iter=30, learning_rate_init=0.02, random_state=0), "passes"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseEstimator) else value,
)
def test_every_kind_of_estimator_costs_less_than_its_default(estimator, training):
    X, y = made_up(1200)
    X, Z, y, z = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    clf, plain = adapted(estimator, COSTS).fit(X, y), clone(estimator).fit(X, y)
    passes = len(clf.history_) > 6  # 30 passes, or 6 refits
    assert passes == (training == "passes")
    assert COSTS.mean(z, clf.predict(Z)) < COSTS.mean(z, plain.predict(Z))
    assert hasattr(clf, "predict_proba") == hasattr(plain, "predict_proba")
    assert clf.score(Z, z) == pytest.approx(-COSTS.mean(z, clf.predict(Z)))


def test_one_round_is_plain_weighting(data):
    X, y = data
    clf = linear(max_iter=1, validation=data).fit(X, y)
    # the weights of a class, scaled to a mean of 1: scikit-learn's own way
    weight = np.where(y == 1, 1.0, 1 / 20)
    plain = LogisticRegression().fit(X, y, sample_weight=weight * len(y) / weight.sum())
    np.testing.assert_allclose(clf.decision_scores(X), plain.predict_proba(X)[:, 1], rtol=1e-12)
    assert clf.predict(X).tolist() == plain.predict(X).tolist()


def test_the_rounds_are_the_loop_of_the_paper(data):
    X, y = data
    Z, z = made_up(400, seed=1)
    model = LogisticRegression(tol=1e-10, max_iter=1000)
    settings = {"select": "last", "patience": None, "max_iter": 4, "controller": AdaCSLController(COSTS)}
    clf = adapted_estimator(model, COSTS, validation=(Z, z), **settings).fit(X, y)
    controller, lambdas = AdaCSLController(COSTS), []
    for _ in range(4):
        lambdas.append(controller.lambda_)
        weight = np.where(y == 1, 1.0, controller.weight)
        fitted = clone(model).fit(X, y, sample_weight=weight * len(y) / weight.sum())
        controller.step(fitted.predict_proba(Z)[:, 1], z)
    # the lambda a round was trained with, and what was measured after it
    assert clf.history_["lambda"].tolist() == pytest.approx(lambdas, rel=1e-4)
    assert clf.history_["val_cost"].tolist() == pytest.approx([s.cost for s in controller.history])
    np.testing.assert_allclose(clf.decision_scores(X), fitted.predict_proba(X)[:, 1], rtol=1e-3)


def test_many_standard_errors_adapt_nothing(data):
    clf = linear(controller={"n_standard_errors": 1e6}).fit(*data)
    assert set(clf.history_["lambda"]) == {1.0}
    # and without a controller it is one weighted fit
    assert len(linear(controller=None).fit(*data).history_) == 0


class Watched(ClassifierMixin, BaseEstimator):
    """Records how it was trained; its scores depend on the number of trainings only."""

    def __init__(self, log=None, max_iter=1):
        self.log = log
        self.max_iter = max_iter

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        self.classes_ = np.asarray(classes)
        self.passes_ = getattr(self, "passes_", 0) + 1
        WATCHED.append((len(y), sample_weight[y == 0].mean() / sample_weight[y == 1].mean()))
        return self

    def predict_proba(self, X):
        p = 1 / (1 + np.exp(-X[:, 0] + 0.5 * self.passes_))
        return np.stack((1 - p, p), axis=1)

    def fit(self, X, y):
        raise AssertionError("passes are expected")


WATCHED = []


def test_passes_train_with_the_controllers_weight(data):
    WATCHED.clear()
    clf = adapted(Watched(), COSTS, max_iter=5, patience=None, every=2).fit(*data)
    assert [n for n, _ in WATCHED] == [480] * 5
    trained = clf.history_["weight"].tolist()
    assert [ratio for _, ratio in WATCHED] == pytest.approx(trained)
    assert trained[:2] == [0.05] * 2
    assert trained[2] == trained[3]
    assert len(set(trained)) == 3
    assert clf.estimators_[0].passes_ == clf.history_["val_cost"].argmin() + 1  # the pass of least cost, not the last


def test_patience_ends_the_rounds(data):
    clf = adapted(Watched(), COSTS, max_iter=50, patience=3).fit(*data)
    assert len(clf.history_) == clf.history_["val_cost"].argmin() + 4


@pytest.mark.parametrize(
    ("kind", "expected"), [(functools.partial(RandomForestClassifier, 5), [False, False]),
                           (LogisticRegression, [False, True])]
)  # fmt: skip
def test_warm_start_is_for_solvers_only(data, monkeypatch, kind, expected):
    estimator, fits = kind(), []
    fit = type(estimator).fit

    @functools.wraps(fit)
    def recorded(self, *arguments, **settings):
        fits.append(self.warm_start)
        return fit(self, *arguments, **settings)

    monkeypatch.setattr(type(estimator), "fit", recorded)
    adapted(estimator, COSTS, max_iter=2).fit(*data)
    assert fits == expected


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_the_unit_of_costs_does_not_change_the_regularisation(data, scale):
    X, y = data
    clf = adapted(LogisticRegression(), CostMatrix(fp=scale, fn=20 * scale)).fit(X, y)
    assert clf.predict(X).tolist() == linear().fit(X, y).predict(X).tolist()


@pytest.mark.parametrize(("fp", "fn", "label"), [(1e-9, 1e9, 1), (1e3, 1e-9, 0)])
def test_extreme_ratios_decide_for_one_class(data, fp, fn, label):
    X, y = data
    assert set(adapted(LogisticRegression(), CostMatrix(fp=fp, fn=fn)).fit(X, y).predict(X)) == {label}


# cross-fitting, estimates, probabilities


def test_cross_fitting_averages_the_folds(data):
    X, y = data
    clf = linear(cv=4).fit(X, y)
    assert len(clf.estimators_) == 4
    assert not np.isnan(clf.oof_scores_).any()
    logits = np.mean([m.decision_function(X) for m in clf.estimators_], axis=0)
    np.testing.assert_allclose(clf.decision_scores(X), 1 / (1 + np.exp(-logits)), rtol=1e-9)
    assert clf.estimated_cost_.low < clf.estimated_cost_.estimate < clf.estimated_cost_.high
    assert set(clf.history_["fold"]) == {0}  # one controller for all folds
    assert not clf.history_["round"].duplicated().any()


def test_own_splitters(data):
    X, y = data
    groups = np.arange(len(y)) // 3
    assert len(linear(cv=KFold(3)).fit(X, y).estimators_) == 3
    assert len(linear(cv=RepeatedStratifiedKFold(n_splits=2, n_repeats=2)).fit(X, y).estimators_) == 4
    clf = linear().fit(X, y, groups=groups)
    held_out = set(groups[~np.isnan(clf.oof_scores_)])
    assert held_out.isdisjoint(groups[np.isnan(clf.oof_scores_)])


def test_the_estimate_is_near_the_cost_on_new_data():
    X, y = made_up(1500)
    Z, z = made_up(20000, seed=1)
    for decide in ("bayes", "tuned", "unweighted"):
        clf = linear(cv=5, decide=decide).fit(X, y)
        true = COSTS.mean(z, clf.predict(Z))
        assert clf.estimated_cost_.low * 0.9 < true < clf.estimated_cost_.high * 1.1, decide


def test_probabilities_are_corrected():
    X, y = made_up(4000)
    clf = linear(cv=5).fit(X, y)
    proba = clf.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert proba[:, 1].mean() == pytest.approx(y.mean(), abs=0.05)  # raw scores have a mean of about 0.5
    assert abs(clf.decision_scores(X).mean() - y.mean()) > 0.15
    np.testing.assert_array_equal(clf.predict(X) == 1, proba[:, 1] > COSTS.threshold)
    np.testing.assert_array_equal(clf.predict(X) == 1, clf.decision_scores(X) > 0.5)


def test_decide_unweighted_undoes_the_whole_weight(data):
    X, y = data
    clf = linear(decide="unweighted", max_iter=3, select="last").fit(X, y)
    weight = clf.history_["weight"].iloc[-1]  # the one the last round trained with
    raw = clf.estimators_[0].decision_function(X)
    np.testing.assert_allclose(clf.decision_scores(X), 1 / (1 + np.exp(-raw) / weight), rtol=1e-9)
    assert clf.threshold_ == pytest.approx(COSTS.threshold)


@pytest.mark.parametrize("target_threshold", ["bayes", "middle", 0.3])
def test_targets(data, target_threshold):
    clf = linear(
        target_threshold=target_threshold, controller={"partition": UniformBins(2), "bounds": (0.1, 10.0)}
    ).fit(*data)
    assert clf.threshold_ == pytest.approx(clf.target_threshold_)
    assert clf.target_threshold_ == pytest.approx(
        {"bayes": 1 / 21, "middle": 1 / (1 + 20**0.5)}.get(target_threshold, target_threshold)
    )
    assert clf.history_["lambda"].between(0.1, 10.0).all()


def test_auto_selects_the_least_cost_of_a_plain_one_and_three_targets(data):
    auto = linear(target_threshold="auto").fit(*data)
    tried = {"plain": linear(target_threshold="bayes", controller={"bounds": (1.0, 1.0)}).fit(*data)}
    tried |= {
        clf.target_threshold_: clf for clf in (linear(target_threshold=t).fit(*data) for t in (0.5, "middle", "bayes"))
    }
    assert auto.target_costs_ == pytest.approx({key: min(clf.target_costs_.values()) for key, clf in tried.items()})
    best = min(tried, key=lambda key: min(tried[key].target_costs_.values()))
    selected = tried[best]
    assert (auto.target_threshold_, auto.adapted_) == (selected.target_threshold_, best != "plain")
    np.testing.assert_array_equal(auto.predict(data[0]), selected.predict(data[0]))


# costs, weights, labels, data


def test_costs_of_each_sample(data):
    X, y = data
    amounts, ones = np.random.default_rng(0).lognormal(3, 1, len(y)), np.ones(len(y))
    costs = CostMatrix(fp=ones, fn=amounts)
    clf = adapted(LogisticRegression()).fit(X, y, fp=ones, fn=amounts)
    mean = amounts[y == 1].mean()  # over those who can pay it
    assert clf.costs_.fn == pytest.approx(mean)
    seen = ~np.isnan(clf.oof_scores_)
    # held-out samples are decided, and measured, at their own costs
    raw = _first_round(clf, X, y)[seen]
    expected = costs.rows(seen).mean(y[seen], raw / (1 - raw) / mean > 1 / amounts[seen])
    assert clf.history_["val_cost"][0] == pytest.approx(expected)
    decided = clf.predict(X, fp=ones, fn=amounts)
    np.testing.assert_array_equal(decided == 1, clf.predict_proba(X)[:, 1] > 1 / (1 + amounts))
    assert clf.score(X, y, fp=ones, fn=amounts) == pytest.approx(-costs.mean(y, decided))


def _first_round(clf, X, y):
    train = np.isnan(clf.oof_scores_)
    weight = np.where(y[train] == 1, 1.0, 1 / clf.costs_.ratio)
    model = LogisticRegression().fit(X[train], y[train], sample_weight=weight * train.sum() / weight.sum())
    return model.predict_proba(X)[:, 1]


def test_samples_of_weight_zero_count_as_missing(data):
    X, y = data
    Z, z = np.concatenate((X, X[:50] + 3)), np.concatenate((y, 1 - y[:50]))
    weight = np.concatenate((np.ones(len(y)), np.zeros(50)))
    one, other = linear().fit(X, y), linear().fit(Z, z, sample_weight=weight)
    np.testing.assert_allclose(one.decision_scores(X), other.decision_scores(X), rtol=1e-4)


@pytest.mark.parametrize(("labels", "pos_label"), [(("no", "yes"), "yes"), (("ill", "well"), "ill"), ((-1, 1), None)])
def test_labels(data, labels, pos_label):
    X, y = data
    flipped = pos_label == labels[0]
    named = np.where(y == (0 if flipped else 1), labels[1], labels[0])
    clf = linear(pos_label=pos_label).fit(X, named)
    assert clf.pos_label_ == (pos_label or 1)
    expected = linear().fit(X, y)
    np.testing.assert_array_equal(clf.predict(X) == clf.pos_label_, expected.predict(X) == 1)
    column = list(clf.classes_).index(clf.pos_label_)
    np.testing.assert_allclose(clf.predict_proba(X)[:, column], expected.predict_proba(X)[:, 1])


def test_tables_and_sparse_matrices(data):
    X, y = data
    expected = linear().fit(X, y).predict(X)
    table = pd.DataFrame(X, columns=list("abcd"))
    clf = linear().fit(table, y)
    assert clf.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_array_equal(clf.predict(table), expected)
    np.testing.assert_array_equal(linear().fit(sparse.csr_matrix(X), y).predict(sparse.csr_matrix(X)), expected)
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(table.rename(columns={"a": "z"}))


def test_pipelines_of_text():
    texts = ["cheap pills now", "see you at lunch", "pills pills", "lunch tomorrow?"] * 20
    spam = [1, 0, 1, 0] * 20
    clf = adapted(make_pipeline(TfidfVectorizer(), LogisticRegression()), COSTS).fit(texts, spam)
    assert clf.predict(["pills for you", "see you at lunch tomorrow"]).tolist() == [1, 0]
    assert clf.fit(pd.Series(texts), spam).predict(pd.Series(texts[:2])).tolist() == [1, 0]


def test_pickle_clone_and_search(data):
    X, y = data
    clf = linear(cv=3).fit(X, y)
    again = pickle.loads(pickle.dumps(clf))  # noqa: S301
    np.testing.assert_array_equal(again.predict(X), clf.predict(X))
    assert again.history_.equals(clf.history_)
    assert not hasattr(clone(clf), "estimators_")
    search = GridSearchCV(
        linear(), {"learner__estimator__C": [0.01, 1.0], "controller__damping": [0.5, 1.0]}, cv=2
    ).fit(X, y)
    assert set(search.best_params_) == {"learner__estimator__C", "controller__damping"}
    assert search.best_score_ < 0  # minus a cost


@pytest.mark.parametrize("routing", [False, True])
def test_weights_reach_the_last_step_of_a_pipeline(data, routing):
    X, y = data
    pipe = make_pipeline(StandardScaler(), LogisticRegression())
    with sklearn.config_context(enable_metadata_routing=routing):
        clf = adapted(pipe, COSTS, max_iter=1, validation=(X, y)).fit(X, y)
    weight = np.where(y == 1, 1.0, 1 / 20)
    scaled = StandardScaler().fit_transform(X)  # unweighted: the scaler must not get the weights
    plain = LogisticRegression().fit(scaled, y, sample_weight=weight * len(y) / weight.sum())
    np.testing.assert_allclose(clf.decision_scores(X), plain.predict_proba(scaled)[:, 1], rtol=1e-9)


def test_the_name_of_the_weights_can_be_given(data):
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2)
    with pytest.raises(TypeError, match="takes no sample_weight"):
        adapted(search, COSTS).fit(*data)
    clf = adapted(search, COSTS, weight_name="sample_weight").fit(*data)
    assert clf.estimators_[0].best_params_["C"] in (0.1, 1.0)


# errors


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"estimator": KNeighborsClassifier()}, TypeError, "takes no sample_weight, neither in fit nor in partial_fit"),
        ({"estimator": LogisticRegression(), "training": "passes"}, TypeError, "needs partial_fit with sample_weight"),
        ({"estimator": KNeighborsClassifier(), "training": "refits"}, TypeError, "needs fit with sample_weight"),
        ({"training": "slowly"}, ValueError, "training must be one of 'auto', 'passes', 'refits', got 'slowly'"),
        (
            {"target_threshold": "most"},
            ValueError,
            "one of 'bayes', 'middle', 'half', 'auto', got 'most'",
        ),
        ({"n_standard_errors": 1}, TypeError, "unexpected keyword argument 'n_standard_errors'"),
        ({"max_iter": 0}, ValueError, "max_iter must be 'auto' or a whole number of at least 1, got 0"),
        ({"patience": 0}, ValueError, "patience must be None or a whole number of at least 1, got 0"),
        ({"every": 0}, ValueError, "every must be a whole number of at least 1, got 0"),
        ({"decide": "maybe"}, ValueError, "decide must be one of"),
        ({"costs": 8}, TypeError, "costs must be a CostMatrix"),
    ],
)
def test_wrong_settings(data, settings, error, match):
    with pytest.raises(error, match=match):
        adapted_estimator(**({"estimator": LogisticRegression(), "costs": COSTS} | settings)).fit(*data)


def test_an_estimator_without_scores(data):
    class Decider(ClassifierMixin, BaseEstimator):
        def fit(self, X, y, sample_weight=None):
            self.classes_ = np.unique(y)
            return self

    with pytest.raises(TypeError, match="has neither predict_proba nor decision_function"):
        adapted(Decider(), COSTS).fit(*data)


def test_one_class_is_an_error(data):
    with pytest.raises(ValueError, match="one class"):
        linear().fit(data[0], np.ones(len(data[1])))


# the cost as a score


def test_the_scorer_is_minus_the_mean_cost(data):
    X, y = data
    model, scorer = LogisticRegression().fit(X, y), cost_scorer(COSTS)
    (_, false_positives), (false_negatives, _) = confusion_matrix(y, model.predict(X))
    assert scorer(model, X, y) == pytest.approx(-(false_positives + 20 * false_negatives) / len(y))
    folds = cross_val_score(LogisticRegression(), X, y, scoring=scorer, cv=3)
    assert len(folds) == 3
    assert (folds < 0).all()
    grid = {"class_weight": [None, {0: 1, 1: 20}]}
    search = GridSearchCV(LogisticRegression(), grid, scoring=scorer, cv=3).fit(X, y)
    assert search.best_params_ == {"class_weight": {0: 1, 1: 20}}
    assert scorer(linear().fit(X, y), X, y) < 0
    pickle.loads(pickle.dumps(scorer))  # noqa: S301  as parallel searches do


@pytest.mark.parametrize("pos_label", [None, "ill"])
def test_tuned_thresholds_by_cost(data, pos_label):
    X, y = data
    labels = y if pos_label is None else np.where(y == 1, "ill", "well")
    scorer = cost_scorer(COSTS, pos_label=pos_label)
    tuned = TunedThresholdClassifierCV(LogisticRegression(), scoring=scorer, cv=3).fit(X, labels)
    assert tuned.best_threshold_ < 0.2  # the Bayes threshold is 1/21
    plain = LogisticRegression().fit(X, labels)
    assert scorer(tuned, X, labels) > scorer(plain, X, labels)


def test_costs_of_each_sample_are_metadata(data):
    X, y = data
    amounts = np.random.default_rng(0).lognormal(3, 1, len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = cost_scorer(CostMatrix(fp=2, fn=1)).set_score_request(fn=True)
        result = cross_val_score(LogisticRegression(), X, y, scoring=scorer, cv=KFold(2), params={"fn": amounts})
        half = len(y) // 2
        for value, (train, test) in zip(
            result, [(slice(half, None), slice(half)), (slice(half), slice(half, None))], strict=True
        ):
            decided = LogisticRegression().fit(X[train], y[train]).predict(X[test])
            cost = np.where(decided > y[test], 2.0, 0.0) + np.where(decided < y[test], amounts[test], 0.0)
            assert value == pytest.approx(-cost.mean())
        TunedThresholdClassifierCV(LogisticRegression(), scoring=scorer, cv=3).fit(X, y, fn=amounts)


def test_sample_weights_of_the_score():
    assert mean_cost([0, 1, 1], [1, 0, 1], costs=COSTS, sample_weight=[3.0, 1.0, 0.0]) == pytest.approx(23 / 4)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: cost_scorer(8), TypeError, "costs must be a CostMatrix such as"),
        (
            lambda: cost_scorer(CostMatrix(fp=[1.0, 2.0], fn=[1.0, 2.0])),
            ValueError,
            "per-sample costs come as metadata",
        ),
        (lambda: mean_cost([0, 1], [0, 1]), ValueError, "costs are missing"),
        (
            lambda: mean_cost(["a", "b"], ["a", "a"], costs=COSTS),
            ValueError,
            r"the positive class of the labels is not given",
        ),
        (
            lambda: mean_cost(["a", "b"], ["c", "a"], costs=COSTS, pos_label="a"),
            ValueError,
            "leaves more than one other class",
        ),
        (lambda: mean_cost([0, 1], [0, 1], fn=[1, 2]), ValueError, "per-sample costs need fp too"),
        (lambda: mean_cost([0, 1], [0, 1], costs=COSTS, weight=1), TypeError, "unexpected keyword argument 'weight'"),
    ],
)
def test_wrong_scores(call, error, match):
    with pytest.raises(error, match=match):
        call()


# K classes

SEVERAL = CostMatrix.from_array([[0, 5, 9], [1, 0, 9], [1, 1, 0]], rows="predicted", classes=["a", "b", "c"])


def test_costs_of_named_classes():
    assert mean_cost(["a", "b", "c"], ["b", "b", "a"], costs=SEVERAL) == pytest.approx(10 / 3)
    assert mean_cost(["a", "a"], ["b", "a"], costs=SEVERAL) == 0.5  # a fold without the others
    with pytest.raises(ValueError, match="the cost matrix has no name 'd'; it has 'a', 'b', 'c'"):
        mean_cost(["a"], ["d"], costs=SEVERAL)
    for wrong in ({"pos_label": "a"}, {"fn": [2.0]}):
        with pytest.raises(ValueError, match="apply to two classes"):
            mean_cost(["a"], ["a"], costs=SEVERAL, **wrong)
    two = CostMatrix.from_array([[0, 8], [1, 0]], rows="predicted", classes=["well", "ill"])
    assert mean_cost(["ill", "well"], ["well", "well"], costs=two) == 4.0


def test_costs_of_classes_without_names():
    costs = CostMatrix.from_array([[0, 5, 9], [1, 0, 9], [1, 1, 0]], rows="predicted")
    assert mean_cost([0, 2], [1, 1], costs=costs) == 5.0
    assert mean_cost(["x", "y", "z"], ["y", "y", "z"], costs=costs) == pytest.approx(1 / 3)
    with pytest.raises(ValueError, match=r"do not name their 3 classes, and the labels are \['x', 'y'\]"):
        mean_cost(["x", "y"], ["y", "y"], costs=costs)


def test_more_actions_than_classes():
    costs = [[0, 5], [1, 0], [0.5, 0.5]]
    named = CostMatrix.from_array(costs, rows="predicted", classes=["no", "yes"], actions=["no", "yes", "ask"])
    assert mean_cost(["no", "yes"], ["ask", "no"], costs=named) == 2.75
    assert mean_cost([0, 1], [2, 0], costs=CostMatrix.from_array(costs, rows="predicted")) == 2.75


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=30))
def test_names_and_numbers_mean_the_same(pairs):
    true, pred = np.asarray(pairs).T
    names = np.asarray(["a", "b", "c"])
    assert mean_cost(names[true], names[pred], costs=SEVERAL) == pytest.approx(SEVERAL.mean(true, pred))


def test_a_search_with_costs_of_three_classes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = np.asarray(["a", "b", "c"])[np.digitize(X[:, 0] + rng.normal(size=120), [-0.5, 0.5])]
    search = GridSearchCV(LogisticRegression(), {"C": [1e-3, 1.0]}, scoring=cost_scorer(SEVERAL), cv=3).fit(X, y)
    expected = -SEVERAL.mean(*(np.searchsorted(["a", "b", "c"], labels) for labels in (y, search.predict(X))))
    assert search.score(X, y) == pytest.approx(expected)
