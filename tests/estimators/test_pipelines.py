"""Pipelines as learners: X untouched, inside scikit-learn's own tools, saved and read."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import IterativeImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from adacsl import AdaCSLClassifier, CostMatrix, CostSensitiveClassifier, EnsembleClassifier, find_threshold, load

COSTS = CostMatrix(fp=1, fn=5)
rng = np.random.default_rng(0)
Y = rng.integers(0, 2, 240)
LABELS = np.where(Y == 1, "churn", "stay")
WORDS = np.asarray(["late", "refund", "angry", "happy", "thanks", "good", "fine", "broken"])
TEXTS = [" ".join(rng.choice(WORDS[:3] if label and rng.random() < 0.6 else WORDS, 6)) for label in Y]
TABLE = pd.DataFrame(
    {"text": TEXTS, "city": rng.choice(["Bern", "Rome"], 240), "amount": rng.lognormal(size=240) + 0.5 * Y}
)


def columns():
    return ColumnTransformer(
        [
            ("text", TfidfVectorizer(), "text"),
            ("city", OneHotEncoder(handle_unknown="ignore"), ["city"]),
            ("amount", StandardScaler(), ["amount"]),
        ]
    )


def numbers():
    return ColumnTransformer(
        [("city", OneHotEncoder(sparse_output=False), ["city"]), ("amount", SimpleImputer(), ["amount"])]
    )


def pipeline():
    return make_pipeline(columns(), LogisticRegression())


FITTED = pipeline().fit(TABLE[:120], LABELS[:120])


def frozen(model=FITTED, **settings):
    settings = {"decide": "tuned", "pos_label": "churn", "random_state": 0} | settings
    return CostSensitiveClassifier(COSTS, learner=FrozenEstimator(model), **settings)


def test_a_frozen_pipeline_is_asked_with_the_table_as_it_is():
    model = frozen().fit(TABLE[120:], LABELS[120:])
    place = FITTED.classes_.tolist().index("churn")
    scores = FITTED.predict_proba(TABLE)[:, place]
    np.testing.assert_allclose(model.decision_scores(TABLE), scores, atol=1e-12)
    best = find_threshold(scores[120:], (LABELS[120:] == "churn").astype(int), COSTS)
    decided = (scores[120:] > model.threshold_).astype(int)
    assert COSTS.mean((LABELS[120:] == "churn").astype(int), decided) == pytest.approx(best.cost)
    assert (model.predict(TABLE) == np.where(scores > model.threshold_, "churn", "stay")).all()


def test_a_frozen_model_is_stored_once_and_a_pipeline_is_cross_fitted_on_the_table_as_it_is():
    for cv in (None, 3):
        assert len(frozen(cv=cv).fit(TABLE, LABELS).estimators_) == 1
    model = CostSensitiveClassifier(COSTS, learner=pipeline(), cv=3, pos_label="churn", random_state=0)
    model.fit(TABLE, LABELS)
    assert len(model.estimators_) == 3
    for own in model.estimators_:
        assert "late" in own.steps[0][1].named_transformers_["text"].vocabulary_
    assert np.isfinite(model.oof_scores_).all()


def test_polars_reaches_a_pipeline_that_takes_it():
    pl = pytest.importorskip("polars")
    table = pl.from_pandas(TABLE)
    own = pipeline().fit(table, LABELS)
    model = frozen(own).fit(table[120:], LABELS[120:])
    np.testing.assert_allclose(model.decision_scores(table), model.decision_scores(TABLE), atol=1e-12)


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_sparse_matrices(form):
    matrix = sparse.csr_array(TfidfVectorizer().fit_transform(TEXTS))
    own = LogisticRegression().fit(matrix[:120], LABELS[:120])
    model = frozen(own).fit(matrix[120:].asformat(form), LABELS[120:])
    np.testing.assert_allclose(
        model.decision_scores(matrix.asformat(form)), own.predict_proba(matrix)[:, 0], atol=1e-12
    )


@pytest.mark.parametrize("form", ["list", "array", "series"])
def test_texts_alone_are_saved_and_found_in_tables(tmp_path, form):
    texts = {"list": TEXTS, "array": np.asarray(TEXTS, dtype=object), "series": TABLE["text"]}[form]
    own = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(TEXTS, LABELS)
    model = frozen(own).fit(texts, LABELS)
    again = load(model.save(tmp_path / "model"))
    wanted = model.predict(texts)
    assert (again.predict(TEXTS) == wanted).all()
    assert (again.predict(TABLE[["text"]]) == wanted).all()
    assert (again.predict({"text" if form == "series" else "x0": np.asarray(TEXTS, dtype=object)}) == wanted).all()
    with pytest.raises(ValueError, match="one text per sample"):
        again.predict("a text")
    if form == "series":
        assert (again.predict(TABLE) == wanted).all()
        with pytest.raises(ValueError, match="lacks the column 'text'"):
            again.predict(TABLE[["city"]])
    else:
        with pytest.raises(ValueError, match="a table of 3 columns"):
            again.predict(TABLE)


def test_a_search_over_a_pipeline_and_over_the_decision_of_a_frozen_one():
    learner = CostSensitiveClassifier(COSTS, learner=pipeline(), pos_label="churn", random_state=0)
    search = GridSearchCV(learner, {"learner__logisticregression__C": [0.1, 1.0]}, cv=2, error_score="raise")
    assert search.fit(TABLE, LABELS).best_params_["learner__logisticregression__C"] in (0.1, 1.0)
    search = GridSearchCV(frozen(), {"decide": ["bayes", "tuned"]}, cv=2, error_score="raise").fit(TABLE, LABELS)
    assert search.best_estimator_.estimators_[0].estimator.estimator is FITTED


def test_calibrated_around_a_frozen_pipeline():
    inside = CalibratedClassifierCV(frozen(), cv=2).fit(TABLE, LABELS)
    assert inside.predict_proba(TABLE).shape == (240, 2)
    prefit = CalibratedClassifierCV(FrozenEstimator(frozen().fit(TABLE, LABELS))).fit(TABLE, LABELS)
    assert np.mean(prefit.predict(TABLE) == LABELS) > 0.6


@pytest.mark.parametrize("learner", [FrozenEstimator(FITTED), pipeline()], ids=["frozen", "pipeline"])
def test_voting_and_stacking_number_the_labels(learner):
    """scikit-learn numbers the labels first: costs that name the classes make clear which is which."""
    named = CostMatrix.from_array([[0, 1], [5, 0]], rows="predicted", classes=["churn", "stay"])
    own = CostSensitiveClassifier(named, learner=learner, pos_label="churn", random_state=0)
    parts = [("ours", own), ("other", pipeline())]
    voting = VotingClassifier(parts, voting="soft").fit(TABLE, LABELS)
    fitted = [("ours", frozen().fit(TABLE, LABELS))]
    for whole in (voting, StackingClassifier(parts, cv=2), StackingClassifier(fitted, cv="prefit")):
        assert np.mean(whole.fit(TABLE, LABELS).predict(TABLE) == LABELS) > 0.6
    means = np.mean([each.predict_proba(TABLE) for each in voting.estimators_], axis=0)
    np.testing.assert_allclose(voting.predict_proba(TABLE), means)
    own_labels = own.fit(TABLE, LABELS).predict_proba(TABLE)
    np.testing.assert_allclose(voting.estimators_[0].predict_proba(TABLE), own_labels)


def test_a_frozen_pipeline_in_an_ensemble_and_as_what_adapts():
    ensemble = EnsembleClassifier(
        COSTS, estimators=[("frozen", FrozenEstimator(FITTED)), ("own", pipeline())], pos_label="churn", random_state=0
    ).fit(TABLE, LABELS)
    assert np.mean(ensemble.predict(TABLE) == LABELS) > 0.5
    adapted = AdaCSLClassifier(COSTS, learner=pipeline(), pos_label="churn", random_state=0).fit(TABLE, LABELS)
    assert np.mean(adapted.predict(TABLE) == LABELS) > 0.5


def test_an_estimator_that_cannot_be_copied_is_frozen_all_the_same(tmp_path):
    catboost = pytest.importorskip("catboost")
    kind = {"n_estimators": 3, "verbose": 0, "allow_writing_files": False}
    own = catboost.CatBoostClassifier(cat_features=["city"], **kind).fit(TABLE[["city", "amount"]], LABELS)
    model = frozen(own).fit(TABLE[["city", "amount"]], LABELS)
    place = own.classes_.tolist().index("churn")
    scores = own.predict_proba(TABLE[["city", "amount"]])[:, place]
    np.testing.assert_allclose(model.decision_scores(TABLE[["city", "amount"]]), scores, atol=1e-9)
    with pytest.raises(ValueError, match="CatBoostClassifier cannot be saved without pickle with categories"):
        model.save(tmp_path / "model")


def check_saved(model, rows, folder, labels=LABELS):
    method = frozen(model).set_params(pos_label=labels[0]).fit(rows, labels)
    again = load(method.save(folder))
    np.testing.assert_allclose(again.predict_proba(rows), method.predict_proba(rows), atol=1e-6)
    assert (again.predict(rows) == method.predict(rows)).all()


BOOSTERS = {
    "lightgbm": ("LGBMClassifier", {"verbose": -1, "min_child_samples": 5}),
    "xgboost": ("XGBClassifier", {}),
    "catboost": ("CatBoostClassifier", {"verbose": 0, "allow_writing_files": False}),
}


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize(
    ("library", "form"),
    [
        *(("lightgbm", form) for form in ("columns", "named", "sparse", "calibrated", "bare")),
        *((library, form) for library in ("xgboost", "catboost") for form in ("named", "sparse")),
    ],
)
def test_boosters_in_pipelines_are_saved(tmp_path, library, form):
    name, settings = BOOSTERS[library]
    own = getattr(pytest.importorskip(library), name)(n_estimators=5, **settings)
    rows = {"sparse": TEXTS, "bare": TABLE[["amount"]].assign(other=np.arange(240.0) % 7)}.get(form, TABLE)
    made = {
        "columns": lambda: make_pipeline(columns(), own),
        "named": lambda: make_pipeline(numbers().set_output(transform="pandas"), own),
        "sparse": lambda: make_pipeline(TfidfVectorizer(), own),
        "calibrated": lambda: make_pipeline(numbers(), CalibratedClassifierCV(own, cv=2)),
        "bare": lambda: own,
    }[form]()
    check_saved(made.fit(rows, Y), rows, tmp_path / "model", Y)


@pytest.mark.parametrize(
    "model",
    [
        GridSearchCV(make_pipeline(numbers(), LogisticRegression()), {"logisticregression__C": [0.1, 1.0]}, cv=2),
        TunedThresholdClassifierCV(make_pipeline(numbers(), LogisticRegression()), cv=2),
        make_pipeline(numbers(), IterativeImputer(max_iter=2), LogisticRegression()),
    ],
    ids=["search", "threshold", "imputer"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_searches_and_imputers_are_saved_by_what_predicts(tmp_path, model):
    check_saved(model.fit(TABLE, LABELS), TABLE, tmp_path / "model")
