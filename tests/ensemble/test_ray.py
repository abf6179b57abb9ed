"""Portfolios and boosters on real workers: a Ray cluster that loses a node, killed drivers, processes that talk."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB

import adacsl
from adacsl import AdaCSLBoostingClassifier, CostMatrix, Method, PortfolioClassifier
from adacsl.learners.boosting import Booster

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
        ("light", Booster("lightgbm", rounds=5)),
        ("boost", Booster("xgboost", rounds=5)),
    ]

    def stacked(**where):
        return PortfolioClassifier(COSTS, members=members, cv=3, random_state=0, **where)

    def kill():
        while not (tmp_path / "busy").exists():
            time.sleep(0.05)
        cluster.remove_node(doomed, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    trainer = {"engine": "ray", "address": cluster.address, "workers": 3}
    found = stacked(trainer=trainer, resume=tmp_path / "kept").fit(X, y)
    killer.join()
    assert doomed not in cluster.list_all_nodes()
    assert not ray.is_initialized()  # what we joined we left
    assert list(found.members_) == ["logistic", "slow", "light", "boost"]
    assert same(stacked(n_jobs=1).fit(X, y), found, X)


def test_the_processes_of_a_member_may_die(cluster):
    X, y = numbers()

    class Deadly(GaussianNB):
        def fit(self, X, y, sample_weight=None):
            os._exit(1)

    trainer = {"engine": "ray", "address": cluster.address}
    made = PortfolioClassifier(COSTS, members=["logistic", ("deadly", Deadly())], cv=3, random_state=0, trainer=trainer)
    with pytest.warns(UserWarning, match="member 'deadly' is left out: the worker process died"):
        made.fit(X, y)
    assert list(made.members_) == ["logistic"]


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
    words = ["german-credit", "--members", "logistic,lightgbm-shallow", "--cv", "3", "--quiet"]
    for place, where in (("here", []), ("ray", ["--engine", "ray", "--address", "local", "--workers", "2"])):
        run = [sys.executable, "-m", "adacsl.cli", "train", *words, *where, "--out", str(tmp_path / place), "--json"]
        done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
    task = adacsl.datasets.loading.load_task("german-credit")
    assert same(adacsl.load(tmp_path / "here"), adacsl.load(tmp_path / "ray"), task.X)


def test_an_address_that_leads_nowhere_is_one_line():
    with pytest.raises(ConnectionError, match=r"no Ray cluster at '127.0.0.1:1'"):
        PortfolioClassifier(trainer={"engine": "ray", "address": "127.0.0.1:1"}).fit(*numbers())


def test_the_example_runs_on_a_cluster_of_its_own(tmp_path):
    example = Path(__file__).resolve().parents[2] / "examples" / "cluster_portfolio.py"
    run = [sys.executable, str(example)]
    done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "estimated cost per row: Interval(" in done.stdout
    assert len(list((tmp_path / "cluster_members").glob("*/model.json"))) == 3


# boosters


def boosted(engine, trainer=None, **settings):
    usual = {"rounds": 40, "lr": 0.1, "random_state": 0, "target": "bayes"} | settings
    return AdaCSLBoostingClassifier(COSTS, engine=engine, trainer=trainer, **usual)


GAPS = {"xgboost": (1e-6, 1e-6), "lightgbm": (0.06, 0.01)}
"""Mean difference of probabilities, and difference of the log loss, from one process at most."""


@pytest.mark.parametrize("kind", ["odd", "apart", "weighted"])
@pytest.mark.parametrize("engine", GAPS)
def test_rows_over_two_processes_give_nearly_the_same_booster(engine, kind):
    """``odd``: shards are uneven; ``apart``: each worker sees one class only; ``weighted``: by prices and rows."""
    X, y = numbers(2001)
    if kind == "apart":
        X, y = X[np.argsort(y, kind="stable")], np.sort(y)
        n = min(np.bincount(y))
        X, y = (np.stack([part[:n], part[-n:]], axis=1).reshape(2 * n, -1) for part in (X, y))
        y = y.ravel()  # 0, 1, 0, 1, ...
    more = {"sample_weight": np.linspace(0.5, 2.0, len(y))} if kind == "weighted" else {}
    settings = {"target": 0.4, "controller": None} if kind == "weighted" else {}
    rows = np.arange(len(y))
    folds = {"cv": [(rows[: len(y) * 3 // 4], rows[len(y) * 3 // 4 :])]}  # one boosting, no second one on all rows
    one, two = (boosted(engine, trainer, **settings, **folds).fit(X, y, **more) for trainer in (None, {"workers": 2}))
    new = numbers(3000)
    first, second = (made.predict_proba(new[0])[:, 1] for made in (one, two))
    mean, loss = GAPS[engine]
    assert np.abs(first - second).mean() <= mean
    assert abs(log_loss(new[1], first) - log_loss(new[1], second)) <= loss


def test_a_booster_of_three_classes_on_a_cluster_and_without_early_stopping(cluster):
    X, y = numbers(301)
    y = y + (X[:, 1] > 1)
    trainer = {"workers": 2, "engine": "ray", "address": cluster.address}
    costs = CostMatrix.from_array([[0, 5, 2], [1, 0, 2], [1, 4, 0]], rows="predicted")
    usual = {"random_state": 0, "cv": [(np.arange(200), np.arange(200, 301))]}
    one, two = (
        Method(costs, learner=Booster("xgboost", rounds=5, patience=None, trainer=where), **usual).fit(X, y)
        for where in (None, trainer)
    )
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-5)
    light = Method(costs, learner=Booster("lightgbm", rounds=5, trainer=trainer), **usual).fit(X, y)
    assert np.isfinite(light.predict_proba(X)).all()


def test_more_workers_than_the_cluster_has_room_for_are_refused(cluster):
    trainer = {"workers": 9, "engine": "ray", "address": cluster.address}
    with pytest.raises(ValueError, match="a booster wants 9 workers at once, but the cluster has room for 2"):
        boosted("xgboost", trainer).fit(*numbers())


def fitted_beside(made, disturb):
    """Fit in a thread, as Ray adds nodes in the main one only; ``disturb`` it meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        fit = pool.submit(made.fit, *numbers(40_000))
        disturb()
        assert not fit.done()  # otherwise nothing was disturbed
        return fit.result(timeout=240)


def wait_until_trained(node, seconds):
    """Wait until processes of a node have worked for so long in all: longer than it takes to import and send rows."""
    raylet = node.all_processes["raylet"][0].process.pid
    for _ in range(1200):
        children = subprocess.run(["pgrep", "-P", str(raylet)], capture_output=True, text=True, check=False)
        tasks = [pid for pid in map(int, children.stdout.split()) if _is_task(pid)]
        if sum(map(_cpu_seconds, tasks)) > seconds:
            return
        time.sleep(0.1)
    raise AssertionError("nothing was trained on the node")


def _is_task(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::_do")
    except OSError:
        return False


@pytest.mark.parametrize(("engine", "again"), [("xgboost", True), ("xgboost", False), ("lightgbm", True)])
def test_a_node_may_die_while_a_booster_trains(cluster, engine, again):
    """With a new node the booster is trained on as many workers as before, without on those that are left."""
    doomed = cluster.add_node(num_cpus=2)
    others = []
    rows = np.arange(40_000)
    settings = {"rounds": 1000, "patience": None, "cv": [(rows[:30_000], rows[30_000:])]}

    def disturb():
        wait_until_trained(doomed, 4.0)
        cluster.remove_node(doomed, allow_graceful=False)
        if again:
            others.append(cluster.add_node(num_cpus=2))

    trainer = {"engine": "ray", "address": cluster.address, "workers": 4}
    try:
        found = fitted_beside(boosted(engine, trainer, **settings), disturb)
    finally:
        for node in others:
            cluster.remove_node(node)
    assert not ray.is_initialized()
    new = numbers(3000)
    one = boosted(engine, **settings).fit(*numbers(40_000))
    first, second = (made.predict_proba(new[0])[:, 1] for made in (one, found))
    mean, loss = GAPS[engine]
    assert np.abs(first - second).mean() <= mean
    assert abs(log_loss(new[1], first) - log_loss(new[1], second)) <= loss


def test_a_booster_does_not_wait_for_ever_for_room_that_others_have(cluster, monkeypatch):
    monkeypatch.setattr("adacsl.integrations.ray.PATIENCE", 3.0)
    ray.init(cluster.address, log_to_driver=False)
    try:
        held = ray.remote(num_cpus=1)(lambda: time.sleep(100)).remote()
        trainer = {"engine": "ray", "address": cluster.address, "workers": 2}
        with pytest.raises(TimeoutError, match="the cluster had no room for 2 workers at once within 3 s"):
            boosted("xgboost", trainer).fit(*numbers())
        ray.cancel(held, force=True)
    finally:
        ray.shutdown()


@pytest.mark.parametrize("engine", GAPS)
def test_a_worker_that_dies_ends_the_booster_with_one_line(engine):
    """The others would wait for it; the pool is told by the death of a process."""
    X, y = numbers(60_000)
    large = {"params": {"num_leaves": 1023, "min_data_in_leaf": 1}} if engine == "lightgbm" else {}  # it is quick
    made, killed = boosted(engine, {"workers": 2}, rounds=2000, patience=None, **large), []

    def kill():
        own = os.getpid()
        while not killed:
            time.sleep(0.2)
            children = subprocess.run(["pgrep", "-P", str(own)], capture_output=True, text=True, check=False)
            busy = [pid for pid in map(int, children.stdout.split()) if _cpu_seconds(pid) > 4]
            killed.extend(busy[:1])
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(RuntimeError, match="one of the worker processes died"):
        made.fit(X, y)
    killer.join()


def _cpu_seconds(pid):
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rsplit(")")[-1].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
