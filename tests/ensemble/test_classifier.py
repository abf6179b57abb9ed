"""Ensembles: what takes part, what is left out and why, and that every number says what it claims."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, TimeSeriesSplit, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from adacsl import AdaCSLClassifier, CostMatrix, CostSensitiveClassifier, EnsembleClassifier
from adacsl.adaptive.held_out import HeldOut, halves
from adacsl.base.scores import log_odds, sigmoid
from adacsl.ensemble.base_estimators import BASE_ESTIMATORS, choose_estimators, default_estimators
from adacsl.ensemble.classifier import seconds_of
from adacsl.ensemble.stacking import stack_estimators
from adacsl.estimators.fit import fit_methods
from adacsl.fitting.rows import Rows
from adacsl.integrations.boosting import Matrix
from adacsl.learners.boosting import BoostingLearner
from adacsl.learners.boosting_libraries import load_library
from adacsl.learners.sklearn import SklearnLearner
from adacsl.metrics.intervals import cost_interval
from adacsl.neural.learner import NeuralLearner

COSTS = CostMatrix(fp=1, fn=5)
THRESHOLD = 1 / 6
QUICK = [LogisticRegression(), GaussianNB()]
ONE = {"n_jobs": 1, "random_state": 0}


def drawn(n=240, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = (rng.random(n) < sigmoid(X[:, 0] + X[:, 1] * X[:, 2] - 1.0)).astype(int)
    return X, y


X, Y = drawn()


def fitted(members=QUICK, **settings):
    given = {"costs": COSTS, "estimators": members} | ONE | settings
    return EnsembleClassifier(**given).fit(X, Y)


def left_out(clf):
    table = clf.leaderboard_
    return dict(zip(table["estimator"], table["left_out"], strict=True))


class Sleeper(LogisticRegression):
    """Takes its time; how much is no parameter."""

    seconds = 60.0

    def fit(self, X, y, sample_weight=None):
        time.sleep(self.seconds)
        return super().fit(X, y, sample_weight)


class Dozer(Sleeper):
    seconds = 0.2


class Failing(LogisticRegression):
    def fit(self, X, y, sample_weight=None):
        raise ValueError("it is\n  not to be")


class Dying(LogisticRegression):
    def fit(self, X, y, sample_weight=None):
        os._exit(9)


class Interrupted(LogisticRegression):
    def fit(self, X, y, sample_weight=None):
        raise KeyboardInterrupt


class Unsure(ClassifierMixin, BaseEstimator):
    """Knows nothing of some rows."""

    def __init__(self, share=1.0):
        self.share = share

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        proba = np.full((len(X), 2), 0.5)
        proba[: max(1, int(self.share * len(X)))] = np.nan
        return proba


# members


def test_members_come_as_names_methods_classifiers_and_pairs():
    given = [
        "logistic",
        GaussianNB(),
        ("mine", GaussianNB()),
        CostSensitiveClassifier(learner=SklearnLearner(GaussianNB())),
        ("tree", "histogram"),
    ]
    chosen = choose_estimators(given, images=False)
    assert list(chosen) == ["logistic", "gaussiannb", "mine", "gaussiannb-2", "tree"]
    assert all(isinstance(made, CostSensitiveClassifier) for made in chosen.values())
    assert chosen["gaussiannb"].select == "log-loss"
    assert list(choose_estimators({"a": GaussianNB(), "b": "logistic"}, images=False)) == ["a", "b"]


@pytest.mark.parametrize(
    ("members", "error", "words"),
    [
        ("logistic", TypeError, "list of names"),
        (3, TypeError, "list of names"),
        ([], ValueError, "estimators is empty"),
        ([3], TypeError, "a base estimator must be"),
        ([LogisticRegression], TypeError, "a base estimator must be"),
        ([("a", "logistic", 1)], TypeError, "a base estimator must be"),
        ([(1, "logistic")], TypeError, "must be a text"),
        (["nonsense"], ValueError, r"no base estimator 'nonsense' \(known: logistic"),
        (["logistic", "logistic"], ValueError, "named twice"),
        ([("a", GaussianNB()), ("a", GaussianNB())], ValueError, "named twice"),
    ],
)
def test_wrong_members_are_refused_before_anything_is_fitted(members, error, words):
    with pytest.raises(error, match=words):
        fitted(members)


@pytest.mark.parametrize(
    ("name", "value"),
    [("time_limit", "soon"), ("time_limit", 0), ("time_limit", True), ("n_jobs", 0), ("n_jobs", 1.5), ("strength", -1)],
)
def test_wrong_settings_are_refused(name, value):
    with pytest.raises(ValueError, match=name):
        fitted(**{name: value})


def test_budgets_are_read():
    assert [seconds_of(text) for text in (5, "5", "5 s", ".5min", "2h")] == [5.0, 5.0, 5.0, 30.0, 7200.0]


def test_default_estimators_are_known_and_methods_that_look_at_log_loss():
    result = default_estimators(images=False)
    assert set(result) <= set(BASE_ESTIMATORS)
    assert all(made.select == "log-loss" for made in result.values())


# the numbers, against computations of their own


def by_hand(weight=None):
    """Held-out log-odds of QUICK, from scikit-learn alone."""
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    proba = [cross_val_predict(model, X, Y, cv=folds, method="predict_proba")[:, 1] for model in QUICK]
    return log_odds(np.clip(np.stack(proba, axis=1), 1e-15, 1 - 1e-15))


def cost_of(logits):
    alarm = sigmoid(logits) > THRESHOLD
    return np.mean(np.where(alarm, Y == 0, 5 * (Y == 1)))


def test_leaderboard_scores_and_estimate_are_those_computed_by_hand():
    clf = fitted([(name, SklearnLearner(model, encode=False)) for name, model in zip("ab", QUICK, strict=True)])
    columns = by_hand()
    stack, nested = stack_estimators(columns, Y, cut=np.log(1 / 5), seed=0)
    table = clf.leaderboard_.set_index("estimator")
    assert list(table.columns) == ["cost", "log_loss", "weight", "without", "seconds", "left_out"]
    assert list(table["log_loss"]) == sorted(table["log_loss"])
    for place, name in enumerate("ab"):
        assert table.loc[name, "cost"] == pytest.approx(cost_of(columns[:, place]))
        assert table.loc[name, "log_loss"] == pytest.approx(log_loss(Y, sigmoid(columns[:, place])))
        assert table.loc[name, "weight"] == pytest.approx(stack.weights[place], rel=1e-6)
        alone = stack_estimators(columns[:, [1 - place]], Y, strength=stack.strength, cut=np.log(1 / 5), seed=0)[1]
        assert table.loc[name, "without"] == pytest.approx(cost_of(alone))
    assert (table["seconds"] > 0).all()
    assert (table["left_out"] == "").all()
    np.testing.assert_allclose(clf.oof_scores_, sigmoid(nested), rtol=1e-6)
    assert clf.estimated_cost_.estimate == pytest.approx(cost_of(nested))
    # wider than a bootstrap of the rows by the root of 1.25
    level = 2 * norm.cdf(1.25**0.5 * norm.ppf(0.975)) - 1
    wide = cost_interval(COSTS, Y, nested > np.log(1 / 5), level=round(level, 4))
    assert tuple(clf.estimated_cost_) == pytest.approx(tuple(wide))


def test_predictions_are_the_stack_of_the_folds_mean_models():
    clf = fitted([(name, SklearnLearner(model, encode=False)) for name, model in zip("ab", QUICK, strict=True)])
    fresh = drawn(50, seed=9)[0]
    columns = []
    for model in QUICK:
        parts = []
        for train, _ in StratifiedKFold(5, shuffle=True, random_state=0).split(X, Y):
            proba = model.fit(X[train], Y[train]).predict_proba(fresh)[:, 1]
            parts.append(log_odds(np.clip(proba, 1e-15, 1 - 1e-15)))
        columns.append(np.mean(parts, axis=0))
    expected = clf.model_.stack.logits(np.stack(columns, axis=1))
    np.testing.assert_allclose(clf.predict_proba(fresh)[:, 1], sigmoid(expected), rtol=1e-9)
    np.testing.assert_array_equal(clf.predict(fresh), sigmoid(expected) > THRESHOLD)
    assert list(clf.estimators_) == ["a", "b"]
    np.testing.assert_allclose(clf.estimators_["a"].logits(fresh), columns[0], rtol=1e-9)


@pytest.mark.parametrize("decide", ["tuned", "calibrated"])
def test_other_decisions_work_on_the_stack(decide):
    clf = fitted(decide=decide)
    threshold = clf.threshold_
    np.testing.assert_array_equal(clf.predict(X), clf.decision_scores(X) > threshold)
    assert clf.estimated_cost_.estimate < COSTS.mean(Y, np.zeros_like(Y))


# rows


def test_costs_of_each_row_move_each_rows_threshold():
    amounts = np.random.default_rng(1).uniform(0.5, 30.0, len(Y))
    clf = EnsembleClassifier(COSTS, estimators=QUICK, **ONE).fit(X, Y, fn=amounts)
    chance = clf.predict_proba(X)[:, 1]
    np.testing.assert_array_equal(clf.predict(X, fn=amounts), chance > 1 / (1 + amounts))
    assert set(clf.predict(X, fn=np.full(len(X), 1e9))) == {1}
    alarm = clf.oof_scores_ > 1 / (1 + amounts)
    assert clf.estimated_cost_.estimate == pytest.approx(np.mean(np.where(alarm, Y == 0, amounts * (Y == 1))))


def test_weights_of_rows_reach_members_stack_and_estimate():
    weight = np.random.default_rng(1).integers(0, 3, len(Y)).astype(float)
    clf = EnsembleClassifier(COSTS, estimators=QUICK, **ONE).fit(X, Y, sample_weight=weight)
    used = weight > 0
    assert np.isnan(clf.oof_scores_[~used]).all()
    paid = np.where(clf.oof_scores_ > THRESHOLD, Y == 0, 5 * (Y == 1))
    assert clf.estimated_cost_.estimate == pytest.approx(np.average(paid[used], weights=weight[used]))
    assert not np.allclose(clf.predict_proba(X), fitted().predict_proba(X), atol=1e-4)


def test_groups_stay_together_in_folds_and_stack(monkeypatch):
    groups = np.repeat(np.arange(60), 4)
    seen = []
    train = LogisticRegression.fit
    monkeypatch.setattr(
        LogisticRegression, "fit", lambda self, x, y, **more: seen.append(x) or train(self, x, y, **more)
    )
    coded = np.column_stack([X, groups])
    member = SklearnLearner(LogisticRegression(), encode=False)
    EnsembleClassifier(COSTS, estimators=[member], strength=0.1, **ONE).fit(coded, Y, groups=groups)
    folds = [part[:, 4] for part in seen if part.shape[1] == 5]
    assert len(folds) == 5
    for part in folds:
        assert all(np.sum(part == group) == 4 for group in np.unique(part))


def test_in_time_order_rows_never_held_out_are_not_stacked():
    clf = fitted(cv=TimeSeriesSplit(4))
    assert np.isnan(clf.oof_scores_[:48]).all()
    assert np.isfinite(clf.oof_scores_[48:]).all()
    paid = np.where(clf.oof_scores_ > THRESHOLD, Y == 0, 5 * (Y == 1))[48:]
    assert clf.estimated_cost_.estimate == pytest.approx(paid.mean())


def test_one_split_and_validation_rows_of_their_own():
    one = fitted(cv=None, validation=0.25)
    assert np.isfinite(one.oof_scores_).sum() == 60
    other = fitted(cv=None, validation=drawn(100, seed=5))
    assert len(other.oof_scores_) == len(Y) + 100
    assert np.isnan(other.oof_scores_[: len(Y)]).all()
    alone = LogisticRegression().fit(X, Y)
    member = EnsembleClassifier(
        COSTS,
        estimators=[SklearnLearner(LogisticRegression(), encode=False)],
        cv=None,
        validation=drawn(100, seed=5),
        **ONE,
    ).fit(X, Y)
    np.testing.assert_allclose(member.model_.columns(X)[:, 0], alone.decision_function(X), rtol=1e-6)


def test_a_rare_class_gets_fewer_folds():
    y = (np.arange(240) < 3).astype(int)
    with pytest.warns(UserWarning, match="3 samples: 3 folds instead of 5"):
        clf = EnsembleClassifier(COSTS, estimators=QUICK, **ONE).fit(X, y)
    assert np.isfinite(clf.oof_scores_).all()
    with pytest.raises(ValueError, match="at least 5 samples of each class"):
        EnsembleClassifier(COSTS, estimators=QUICK, **ONE).fit(X, (np.arange(240) < 1).astype(int))


def test_constant_columns_only_give_the_share_of_positives():
    with pytest.warns(UserWarning, match="'lightgbm' is skipped: every column is constant"):
        clf = EnsembleClassifier(COSTS, estimators=[LogisticRegression(), "lightgbm"], **ONE).fit(np.ones((240, 2)), Y)
    np.testing.assert_allclose(clf.predict_proba(np.ones((3, 2)))[:, 1], Y.mean(), atol=0.01)


@pytest.mark.parametrize("column", [Y * 2.0 - 7.0, -Y * 1.0, np.where(Y, "yes", "no"), Y == 1])
def test_a_column_that_tells_the_label_is_named(column):
    table = pd.DataFrame(X, columns=list("abcd")).assign(answer=column)
    with pytest.warns(UserWarning, match="column 'answer' alone separates the classes"):
        EnsembleClassifier(COSTS, estimators=[DecisionTreeClassifier(max_depth=2)], **ONE).fit(table, Y)


def mixed(n=240):
    rng = np.random.default_rng(3)
    table = pd.DataFrame(X[:n], columns=list("abcd"))
    table["shop"] = pd.Categorical(rng.choice(["web", "city", None], n))
    table["day"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 300, n), unit="D")
    table.loc[::7, "b"] = np.nan
    return table


def test_tables_of_all_kinds_are_taken():
    polars = pytest.importorskip("polars")
    table = mixed()
    members = [
        "logistic",
        ("booster", CostSensitiveClassifier(learner=BoostingLearner("lightgbm", n_estimators=10), select="log-loss")),
        "histogram",
    ]
    one = EnsembleClassifier(COSTS, estimators=members, cv=3, **ONE).fit(table, Y)
    other = EnsembleClassifier(COSTS, estimators=members, cv=3, **ONE).fit(polars.from_pandas(table), Y)
    assert set(left_out(one).values()) == {""}
    np.testing.assert_array_equal(one.predict_proba(table), other.predict_proba(polars.from_pandas(table)))


# what fails


@pytest.mark.parametrize(
    ("member", "why"),
    [
        (Failing(), "it is not to be"),
        (Unsure(), "not finite"),
        (Unsure(0.01), "not finite"),
        ("constant", "not finite"),
    ],
)
def test_a_member_that_fails_is_left_out_and_the_rest_goes_on(member, why):
    member = CostSensitiveClassifier(learner="constant", decide="negative") if member == "constant" else member
    with pytest.warns(UserWarning, match=f"base estimator 'bad' is skipped: .*{why}") as told:
        clf = fitted([QUICK[0], ("bad", member), QUICK[1]])
    assert len(told) == 1
    assert "\n" not in str(told[0].message)
    assert why in left_out(clf)["bad"]
    np.testing.assert_array_equal(clf.predict_proba(X), fitted().predict_proba(X))


@pytest.mark.parametrize(
    ("name", "module", "words"),
    [("catboost", "catboost", r"adacsl\[catboost\]"), ("net", "adacsl.neural.learner", r"adacsl\[train\]")],
)
def test_a_named_member_whose_package_is_missing_is_left_out(monkeypatch, name, module, words):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "adacsl.integrations.catboost", raising=False)
    with pytest.warns(UserWarning, match=f"base estimator '{name}' is skipped: .*{words}"):
        clf = fitted([name, QUICK[0]])
    assert left_out(clf)[name]


def test_with_no_member_left_every_reason_is_named():
    with (
        pytest.warns(UserWarning, match="is skipped"),
        pytest.raises(ValueError, match=r"no base estimator could be fitted: a: it is not to be; b: .*not finite"),
    ):
        fitted([("a", Failing()), ("b", Unsure())])


def test_the_budget_ends_what_takes_too_long_and_the_first_is_waited_for():
    start = time.monotonic()
    with pytest.warns(UserWarning, match="base estimator 'slow' is skipped: out of time"):
        clf = fitted([("slow", Sleeper()), QUICK[0]], time_limit="0.5s", n_jobs=2)
    assert time.monotonic() - start < 50
    assert left_out(clf) == {"logisticregression": "", "slow": "out of time"}


def test_an_interrupt_ends_with_what_there_is_and_before_that_is_raised():
    with pytest.warns(UserWarning, match="skipped: interrupted") as told:
        clf = fitted([*QUICK, ("a", Interrupted()), ("b", LogisticRegression(C=2.0))])
    assert len(told) == 2
    assert {name for name, why in left_out(clf).items() if why == "interrupted"} == {"a", "b"}
    np.testing.assert_array_equal(clf.predict_proba(X), fitted().predict_proba(X))
    with pytest.raises(KeyboardInterrupt):
        fitted([Interrupted(), *QUICK])


@pytest.mark.skipif(sys.platform == "win32", reason="no signals to processes")
def test_ctrl_c_ends_a_fit_in_several_processes(tmp_path):
    script = tmp_path / "fit.py"
    script.write_text(
        textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from test_classifier import COSTS, LogisticRegression, EnsembleClassifier, Sleeper, X, Y
        if __name__ == "__main__":
            clf = EnsembleClassifier(COSTS, estimators=[LogisticRegression(), Sleeper()], n_jobs=2, verbose=True)
            print(clf.fit(X, Y).leaderboard_["left_out"].tolist())
        """)
    )
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    for line in process.stderr:
        if "1 of 2 base estimators" in line:
            break
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: workers too
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "['', 'interrupted']" in out
    assert "Traceback" not in errors


# the same each time, and nothing of the caller's changed


@pytest.mark.weekly
def test_neither_repetition_nor_processes_nor_their_death_change_a_bit():
    members = [
        ("slow", Dozer()),
        GaussianNB(),
        ("booster", CostSensitiveClassifier(learner=BoostingLearner("lightgbm", n_estimators=10))),
    ]
    one, again = (fitted(members) for _ in range(2))
    with pytest.warns(UserWarning, match="base estimator 'bad' is skipped: the worker process died") as told:
        other = fitted([("bad", Dying()), *members], n_jobs=2)
    assert len(told) == 1
    assert left_out(other).pop("bad")
    for clf in (again, other):
        np.testing.assert_array_equal(one.predict_proba(X), clf.predict_proba(X))
        np.testing.assert_array_equal(one.oof_scores_, clf.oof_scores_)
        table = clf.leaderboard_.query("left_out == ''")
        pd.testing.assert_frame_equal(
            one.leaderboard_.drop(columns="seconds"), table.drop(columns="seconds"), check_exact=True
        )
    assert one.estimated_cost_ == other.estimated_cost_


def test_the_callers_random_state_and_threads_are_left_alone():
    torch = pytest.importorskip("torch")
    net = CostSensitiveClassifier(learner="net", select="log-loss").set_params(learner=_tiny_net())
    before, drawn_before = torch.get_num_threads(), torch.random.get_rng_state()
    state = np.random.get_state()[1].copy()  # noqa: NPY002  the caller's
    fitted([QUICK[0], ("net", net)], cv=2)
    assert torch.get_num_threads() == before
    assert torch.equal(torch.random.get_rng_state(), drawn_before)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


def _tiny_net():
    from adacsl.neural.learner import NeuralLearner

    return NeuralLearner(epochs=3)


def test_progress_is_told_on_stderr(capsys, monkeypatch):
    clf = fitted(verbose=True)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == [
        "ensemble: 1 of 2 base estimators",
        "ensemble: 2 of 2 base estimators",
    ]
    assert all("out-of-fold cost 0." in line for line in lines)
    assert len(clf.history_) == 2
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    fitted(verbose=True)
    shown = capsys.readouterr().err
    assert "ensemble: 0 of 2 base estimators, 0 s, running: " in shown
    assert shown.count("\r\x1b[2K") >= 4
    assert shown.count("\n") == 1
    assert shown.endswith("\n")
    fitted()
    assert capsys.readouterr().err == ""


# chosen by log loss


@pytest.fixture
def looked(monkeypatch):
    """Every HeldOut that a fit makes, with all it was shown."""
    seen = {}
    look = HeldOut.look

    def spy(self, logits):
        seen.setdefault(id(self), (self, []))[1].append(np.array(logits, dtype=np.float64))
        return look(self, logits)

    monkeypatch.setattr(HeldOut, "look", spy)
    return seen


def check_choices(held, shown, folds):
    """The least log loss is kept, and each half's honest scores are those that the other half likes best."""
    labels = held.labels.astype(int)
    losses = [log_loss(labels, sigmoid(logits), labels=[0, 1]) for logits in shown]
    assert losses[held.best] == pytest.approx(min(losses))
    second = halves(labels)
    for own in (second, ~second):
        other = [log_loss(labels[~own], sigmoid(logits[~own]), labels=[0, 1]) for logits in shown]
        np.testing.assert_allclose(held.corrected[own], shown[int(np.argmin(other))][own])
    assert len(shown) == held.seen


@pytest.mark.parametrize("learner", ["net", "lightgbm", "passes"])
def test_the_epoch_or_round_of_least_log_loss_is_kept(looked, learner):
    if learner == "net":
        method = CostSensitiveClassifier(COSTS, learner=_tiny_net(), select="log-loss", cv=2, random_state=0)
    elif learner == "lightgbm":
        method = CostSensitiveClassifier(
            COSTS,
            learner=BoostingLearner("lightgbm", n_estimators=30, learning_rate=0.3),
            select="log-loss",
            cv=2,
            random_state=0,
        )
    else:
        method = AdaCSLClassifier(
            COSTS,
            learner=SklearnLearner(GaussianNB(), encode=False),
            select="log-loss",
            cv=2,
            random_state=0,
            target_threshold="middle",
            decide="bayes",
        )
    method.fit(X, Y)
    assert looked
    for held, shown in looked.values():
        assert len(shown) > 1
        check_choices(held, shown, 2)
    if learner == "lightgbm":
        judges = [held for held, _ in looked.values()]
        assert len(judges) == 4  # a second cross-fit tells what the average costs
        assert method.model_.rounds == [held.best + 1 for held in judges[:2]]


def test_an_infinite_loss_stays_in_its_half():
    held = HeldOut(np.arange(4), np.array([0, 0, 1, 1]), COSTS, by_loss=True)
    held.look(np.array([-np.inf, 0.0, np.inf, 0.0]))
    held.look(np.array([np.inf, -1.0, 0.0, 1.0]))  # a disaster for the first half, better for the second
    assert held.best == 0
    np.testing.assert_array_equal(held.corrected, [np.inf, 0.0, 0.0, 0.0])


ONE_THREAD = {"xgboost": {"nthread": 1}, "lightgbm": {"num_threads": 1}, "catboost": {"thread_count": 1}}


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "catboost"])
@pytest.mark.parametrize("weighted", [False, True])
def test_margins_shown_each_round_are_those_of_the_model_cut_there(name, weighted):
    pytest.importorskip(name)
    library = load_library(name)
    x = np.column_stack([X, np.arange(len(X)) % 3])
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(Y)) if weighted else None
    parts = [
        Matrix(x[own], Y[own], None if weight is None else weight[own], (4,)) for own in (slice(160), slice(160, None))
    ]
    shown = []
    options = {"rounds": 25, "learning_rate": 0.3, "seed": 0, "params": ONE_THREAD[name], "patience": 10}
    model = library.boost_plainly(*parts, lambda margins: shown.append(np.array(margins)), **options)
    assert 10 < len(shown) <= 25
    for rounds in (1, 2, len(shown) // 2, len(shown)):
        cut = library.from_bytes(library.to_bytes(model, rounds))
        np.testing.assert_allclose(library.margins(cut, parts[1]), shown[rounds - 1], rtol=1e-4, atol=1e-5)
    losses = [log_loss(parts[1].y, sigmoid(own), sample_weight=parts[1].weight) for own in shown]
    stopped = len(shown) < 25
    assert not stopped or len(shown) - 1 - int(np.argmin(losses)) >= 10  # by patience, not before


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "catboost"])
def test_plain_boosters_give_unbiased_probabilities(name):
    pytest.importorskip(name)
    x, y = drawn(600, seed=4)
    learner = BoostingLearner(name, n_estimators=40, learning_rate=0.1, params=ONE_THREAD[name])
    plain = CostSensitiveClassifier(
        CostMatrix(fp=1, fn=50), learner=learner, select="log-loss", cv=3, random_state=0
    ).fit(x, y)
    assert np.mean(plain.oof_scores_) == pytest.approx(y.mean(), abs=3 * np.sqrt(y.var() / len(y)))
    fresh, labels = drawn(2000, seed=8)
    assert np.mean(plain.predict_proba(fresh)[:, 1]) == pytest.approx(labels.mean(), abs=0.06)


@pytest.mark.parametrize("target_threshold", [0.5, "bayes", "auto"])
def test_steered_members_bring_probabilities_too(target_threshold):
    params = ONE_THREAD["lightgbm"]
    steered = AdaCSLClassifier(
        learner=BoostingLearner(library="lightgbm", n_estimators=10, params=params),
        target_threshold=target_threshold,
        select="log-loss",
        decide="bayes",
    )
    clf = fitted([("steered", steered), QUICK[0]], cv=2)
    # a weighted loss scores high; the shift takes that back
    assert np.mean(sigmoid(clf.model_.columns(X)[:, 0])) == pytest.approx(Y.mean(), abs=0.12)


def test_a_comparison_watches_what_predict_would_say():
    rows = Rows(X, Y, np.arange(180))
    watch = np.arange(180, 240)
    steered = AdaCSLClassifier(
        learner=BoostingLearner(library="lightgbm", n_estimators=10, params=ONE_THREAD["lightgbm"]),
        target_threshold=0.5,
        decide="bayes",
    )
    watched, fit = (EnsembleClassifier(COSTS, estimators=[steered, *QUICK], **ONE) for _ in range(2))
    ((number, candidate),) = fit_methods([(watched, COSTS)], rows, watch=watch)
    list(fit_methods([(fit, COSTS)], rows))
    np.testing.assert_allclose(candidate.watched, fit.model_.logits(X[watch]), rtol=1e-6)
    assert (number, candidate.model) == (0, None)


def test_images_are_stacked_too():
    rng = np.random.default_rng(0)
    y = (np.arange(40) % 2).astype(int)
    images = rng.integers(0, 255, (40, 8, 8, 3)).astype(np.uint8)
    images[y == 1, :4] //= 2
    neural = NeuralLearner(_flat_net, epochs=1)
    clf = EnsembleClassifier(COSTS, neural=neural, cv=2, device="cpu", **ONE).fit(images, y)
    assert set(left_out(clf)) == {"net", "adacsl", "adacsl-middle", "adacsl-bayes"}
    assert set(left_out(clf).values()) == {""}
    assert clf.predict_proba(images).shape == (40, 2)


def _flat_net():
    from torch import nn

    return nn.Sequential(nn.Flatten(), nn.Linear(192, 1))
