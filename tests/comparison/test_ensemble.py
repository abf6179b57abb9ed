"""An ensemble in a comparison: one process, one fit for all cost ratios, and ready to be fitted afterwards."""

import numpy as np
import pytest
from torch import nn

from adacsl import METHODS, CostMatrix, EnsembleClassifier, Task, compare, load_comparison, method
from adacsl.comparison.jobs import plan_jobs
from adacsl.comparison.protocol import Protocol
from adacsl.ensemble.base_estimators import UNKNOWN, choose_estimators, prior_of
from adacsl.estimators.registry import choose_methods
from adacsl.neural.learner import NeuralLearner

COSTS = CostMatrix(fp=1, fn=5)
MEMBERS = ["logistic", "net"]
QUICK = {"n_jobs": 1, "device": "cpu", "progress": False, "neural": NeuralLearner(epochs=2)}


def table(n=120):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 3))
    return x, (x[:, 0] + rng.normal(size=n) > 0.6).astype(int)


def pictures(n=48):
    rng = np.random.default_rng(0)
    y = (np.arange(n) % 3 == 0).astype(int)
    x = rng.integers(60, 160, (n, 16, 16, 3), dtype=np.uint8)
    x[y == 1, 4:12, 4:12] += 60
    return x, y


def small_net():
    return nn.Sequential(nn.Conv2d(3, 4, 3, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 1))


@pytest.mark.parametrize(
    "made",
    [method("ensemble"), method("ensemble", estimators=MEMBERS, n_jobs=4), EnsembleClassifier()],
)
def test_one_process_and_the_nets_of_the_comparison(made):
    ready = Protocol(neural=NeuralLearner(epochs=3), device="cpu").prepare(made, seed=1)
    assert (ready.make_learner().n_jobs, ready.make_learner().neural.epochs) == (1, 3)
    assert Protocol(device="cpu").prepare(made, seed=1).make_learner().neural is None
    own = EnsembleClassifier(neural=NeuralLearner(epochs=7))
    assert Protocol(neural=NeuralLearner(epochs=3), device="cpu").prepare(own, seed=1).make_learner().neural.epochs == 7
    assert made.n_jobs != 1  # the user's own is as it was


def test_by_default_for_tables_and_images_and_one_job_a_split():
    for x, y in (table(), pictures()):
        task = Task.from_data(x, y, COSTS)
        chosen = choose_methods(images=task.images)
        assert "ensemble" in chosen
        jobs = plan_jobs([task], {task.name: chosen}, {task.name: [5.0, 9.0]}, [0, 1], Protocol(device="cpu"))
        mine = [job for job in jobs if any(fit.method == "ensemble" for fit in job.fits)]
        assert [sorted(fit.ratio for fit in job.fits) for job in mine] == [[5.0, 9.0]] * 2


def test_ensembles_that_differ_deep_inside_are_different_jobs():
    def made(last):
        many = [
            (f"net-{i}", method("net", learner=NeuralLearner(learning_rate=0.001 * i, epochs=2, batch_size=32)))
            for i in range(1, 20)
        ]
        return method("ensemble", estimators=[*many[:10], ("mine", NeuralLearner(learning_rate=last)), *many[10:]])

    task = Task.from_data(*table(), COSTS)
    chosen = {"one": made(0.5), "two": made(0.25)}
    assert len(plan_jobs([task], {task.name: chosen}, {task.name: [5.0]}, [0], Protocol(device="cpu"))) == 2


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    chosen = [("ensemble", method("ensemble", estimators=MEMBERS)), "always-positive"]
    folder = tmp_path_factory.mktemp("ensemble")
    return compare(
        *table(), COSTS, methods=chosen, ratios=["1x", 20], repeats=1, folds=2, folder=folder / "run", **QUICK
    )


def test_one_fit_serves_all_ratios_as_if_each_were_alone(found):
    x, y = table()
    fits = {fit.ratio: result for fit, result in found.fits.items() if fit[2:] == ("ensemble", 0)}
    rest = np.setdiff1d(np.arange(len(y)), test := found.splits["data", 0].test_rows)
    settings = {
        "estimators": MEMBERS,
        "neural": NeuralLearner(epochs=2),
        "n_jobs": 1,
        "random_state": 0,
        "device": "cpu",
    }
    for ratio, fit in fits.items():  # the same members, each with a stack of its own
        clf = EnsembleClassifier(CostMatrix(fp=1, fn=ratio), **settings).fit(x[rest], y[rest])
        np.testing.assert_array_equal(clf.predict_proba(x[test])[:, 1].astype(np.float32), fit.scores)
    assert 0.0 < fits[5.0].seconds == fits[20.0].seconds  # shared, not counted twice


def test_what_was_found_is_fitted_with_its_nets_and_in_all_processes(found):
    made = found.method("ensemble")
    assert (made.learner.n_jobs, made.learner.neural.epochs, made.costs.fn) == ("auto", 2, 5)
    model = found.fit(*table(), name="ensemble")
    assert set(model.leaderboard_["estimator"]) == set(MEMBERS)
    again = load_comparison(found.folder).method("ensemble")  # a folder knows the names, and the settings of nets
    assert (again.learner.estimators, again.learner.neural.epochs) == ("auto", 2)
    assert METHODS["ensemble"][0] in found.report_data().titles["ensemble"]


def test_members_of_images_have_names():
    chosen = choose_estimators(["net", "adacsl-bayes", "net-weighted"], images=True, neural=NeuralLearner(epochs=3))
    settings = [(made.target_threshold, made.learner.epochs) for made in chosen.values()]
    assert settings == [(None, 3), ("bayes", 3), (0.5, 3)]
    assert prior_of("adacsl-bayes") == prior_of("net") != prior_of("mine") == UNKNOWN


def test_images():
    x, y = pictures()
    neural = NeuralLearner(small_net, epochs=1, batch_size=16)
    clf = EnsembleClassifier(COSTS, neural=neural, cv=2, random_state=0, device="cpu").fit(x, y)
    assert set(clf.leaderboard_["estimator"]) == {"net", "adacsl", "adacsl-middle", "adacsl-bayes"}
    assert not clf.leaderboard_["left_out"].any()
    assert clf.predict(x[:3]).shape == (3,)
    assert 0.0 <= clf.estimated_cost_.low <= clf.estimated_cost_.high
    found = compare(x, y, COSTS, methods=["ensemble"], repeats=1, folds=2, **QUICK | {"neural": neural})
    assert found.table["method"].tolist() == ["ensemble"]
