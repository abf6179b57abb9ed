"""Ensembles and boosters on real workers: a Ray cluster that loses a node, killed drivers, processes that talk."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

import adacsl
from adacsl import CostMatrix, EnsembleClassifier
from adacsl.learners.boosting import BoostingLearner

pytest.importorskip("ray", reason="needs adacsl[ray]")

import ray
from ray.cluster_utils import Cluster

pytestmark = [
    pytest.mark.weekly,
    # Ray's own: pipes and log files of its processes that it leaves to the garbage collector
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
COSTS = CostMatrix(fp=1, fn=6)
SCRIPT = Path(__file__).parent / "scripts" / "stack_on_ray.py"


@pytest.fixture(scope="module")
def cluster():
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    yield made
    ray.shutdown()
    made.shutdown()


def numbers(n=400):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 5))
    X[:, 0] += y
    return X, y


def same(one, other, X):
    return np.array_equal(one.predict_proba(X), other.predict_proba(X)) and np.array_equal(
        one.oof_scores_, other.oof_scores_
    )


def slow_on(doomed, folder):
    """Return a classifier that waits where the node is doomed; here, so that Ray carries it by value."""

    class Slow(GaussianNB):
        def fit(self, X, y, sample_weight=None):
            inside = ray.is_initialized() and ray.get_runtime_context().get_node_id() == doomed
            if inside:
                (Path(folder) / "busy").touch()
                time.sleep(300)
            for _ in range(600 if ray.is_initialized() else 0):  # elsewhere nothing is done before
                if (Path(folder) / "busy").exists():
                    break
                time.sleep(0.05)
            return super().fit(X, y, sample_weight)

    return Slow()


def test_a_node_may_die_while_members_train(cluster, tmp_path):
    X, y = numbers()
    doomed = cluster.add_node(num_cpus=1)
    slow = slow_on(doomed.node_id, tmp_path)
    members = [
        "logistic",
        ("slow", slow),
        ("light", BoostingLearner("lightgbm", n_estimators=5)),
        ("boost", BoostingLearner("xgboost", n_estimators=5)),
    ]

    def stacked(**where):
        return EnsembleClassifier(COSTS, estimators=members, cv=3, random_state=0, **where)

    def kill():
        while not (tmp_path / "busy").exists():
            time.sleep(0.05)
        cluster.remove_node(doomed, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    trainer = {"backend": "ray", "address": cluster.address, "n_jobs": 3}
    result = stacked(**trainer, resume=tmp_path / "kept").fit(X, y)
    killer.join()
    assert doomed not in cluster.list_all_nodes()
    assert not ray.is_initialized()  # what we joined we left
    assert list(result.estimators_) == ["logistic", "slow", "light", "boost"]
    assert same(stacked(n_jobs=1).fit(X, y), result, X)


def test_the_processes_of_a_member_may_die(cluster):
    X, y = numbers()

    class Deadly(GaussianNB):
        def fit(self, X, y, sample_weight=None):
            os._exit(1)

    trainer = {"backend": "ray", "address": cluster.address}
    made = EnsembleClassifier(COSTS, estimators=["logistic", ("deadly", Deadly())], cv=3, random_state=0, **trainer)
    with pytest.warns(UserWarning, match="base estimator 'deadly' is skipped: the worker process died"):
        made.fit(X, y)
    assert list(made.estimators_) == ["logistic"]


def test_a_killed_driver_goes_on_with_what_was_done(tmp_path):
    """The first run is killed when a member is kept; the second fits the others only."""
    kept, log = tmp_path / "kept", tmp_path / "log"
    run = [sys.executable, str(SCRIPT), str(kept), str(log)]
    first = subprocess.Popen([*run, "slow"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    for _ in range(1200):
        if list(kept.glob("logistic-*/model.json")):
            break
        time.sleep(0.1)
    first.send_signal(signal.SIGKILL)
    first.wait()
    before = log.read_text().split()
    assert "logistic" in before
    done = subprocess.run([*run, "quick"], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    after = log.read_text().split()[len(before) :]
    assert "logistic" not in after
    assert after.count("nb") == 3
    assert done.stdout.split() == ["True"], done.stderr  # the same as in one process


def test_ctrl_c_ends_the_tasks_and_keeps_what_is_done(tmp_path):
    kept, log = tmp_path / "kept", tmp_path / "log"
    run = subprocess.Popen(
        [sys.executable, str(SCRIPT), str(kept), str(log), "slow"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    for _ in range(1200):
        if list(kept.glob("logistic-*/model.json")):
            break
        time.sleep(0.1)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 0, err
    assert b"interrupted" in err
    assert out.split() == [b"False"]  # of one member only


def test_adacsl_train_says_it_as_a_comparison_does(tmp_path):
    words = ["german-credit", "--estimators", "logistic,lightgbm-shallow", "--cv", "3", "--quiet"]
    for place, where in (("here", []), ("ray", ["--backend", "ray", "--address", "local", "--n-jobs", "2"])):
        run = [sys.executable, "-m", "adacsl.cli", "train", *words, *where, "--out", str(tmp_path / place), "--json"]
        done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
    task = adacsl.datasets.loading.load_task("german-credit")
    assert same(adacsl.load(tmp_path / "here"), adacsl.load(tmp_path / "ray"), task.X)


def test_an_address_that_leads_nowhere_is_one_line():
    with pytest.raises(ConnectionError, match=r"no Ray cluster at '127.0.0.1:1'"):
        EnsembleClassifier(backend="ray", address="127.0.0.1:1").fit(*numbers())


def test_the_example_runs_on_a_cluster_of_its_own(tmp_path):
    example = Path(__file__).resolve().parents[2] / "examples" / "cluster_ensemble.py"
    run = [sys.executable, str(example)]
    done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "estimated cost per row: Interval(" in done.stdout
    assert len(list((tmp_path / "cluster_members").glob("*/model.json"))) == 3
