"""The runner on a real Ray cluster of several nodes, with workers and nodes that die in the middle."""

import builtins
import logging
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from adacsl.comparison.runner import Job, run
from adacsl.comparison.store import Store

pytest.importorskip("ray", reason="needs adacsl[ray]")

import ray
from ray.cluster_utils import Cluster

pytestmark = [
    pytest.mark.slow,
    # Ray's own: pipes and log files of its processes that it leaves to the garbage collector
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
SCRIPT = Path(__file__).parent / "scripts" / "small_fits.py"


@pytest.fixture(scope="module")
def toys(load_module):
    return load_module(SCRIPT)


@pytest.fixture(scope="module")
def cluster():
    """A cluster of one node; the test that removes one adds it first."""
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "num_gpus": 1, "include_dashboard": False})
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture
def store(toys, tmp_path):
    with Store.open(tmp_path / "run", toys.IDENTITY) as opened:
        yield opened


def fits_of(jobs):
    return {fit for job in jobs for fit in job.fits}


def dangerous(toys):
    """Return work whose workers die where the payload says so, and that is slow on the doomed node."""
    result_of, note = toys.result_of, toys.note

    def work(shared, payload, fits):
        assert float(shared["x"].sum()) == 499_500.0
        folder = Path(shared["log"]).parent
        doomed = ray.get_runtime_context().get_node_id() == shared["doomed"]
        for fit in fits:
            note(shared["log"], f"{fit.method} {fit.seed}")
            flag = folder / f"died-{fit.seed}"
            if payload is not None and fit.method == "net-weighted" and not flag.exists():
                flag.touch()
                os._exit(1) if payload == "exit" else os.kill(os.getpid(), signal.SIGKILL)
            if doomed and payload is None and fit.method == "net-weighted":
                (folder / "busy").touch()
                time.sleep(300)  # the node goes first
            for _ in range(3000):  # elsewhere nothing is done before
                if doomed or (folder / "busy").exists():
                    break
                time.sleep(0.02)
            yield result_of(fit)

    return work


def test_workers_and_a_node_may_die_in_the_middle(toys, store, cluster, tmp_path):
    """All fits end up done once; a job goes on with the fits it still owes."""
    log = tmp_path / "log"
    doomed = cluster.add_node(num_cpus=1)
    doomed_id = doomed.node_id
    jobs = toys.grid(16)
    deaths = {5: "exit", 6: "kill"}
    jobs = [Job(job.fits, deaths.get(i)) for i, job in enumerate(jobs)]

    events = []

    def watch(event):
        events.append(event)
        if event.kind == "done":
            toys.note(log, f"stored {event.fits[0].method} {event.fits[0].seed}")
        if event.kind == "done" and (tmp_path / "busy").exists() and doomed in cluster.list_all_nodes():
            cluster.remove_node(doomed, allow_graceful=False)

    shared = {"x": np.arange(1000.0), "log": str(log), "doomed": doomed_id}
    tally = run(jobs, dangerous(toys), store, shared=shared, backend="ray", address=cluster.address, on_event=watch)
    assert doomed not in cluster.list_all_nodes(), "the node was never busy"
    assert tally[:2] == (16, 0)
    assert tally.ran == 16
    assert [event.done for event in events if event.kind == "done"] == list(range(1, 17))
    assert sorted(event.fits[0] for event in events if event.kind == "done") == sorted(fits_of(jobs))
    scan = store.scan()
    assert scan.done == fits_of(jobs)
    assert scan.failed == {}
    # what had been stored before a death was not done again
    lines = log.read_text().splitlines()
    stored = {line.removeprefix("stored "): i for i, line in enumerate(lines) if line.startswith("stored ")}
    ran = [line for line in lines if not line.startswith("stored ")]
    assert len(stored) == 16
    assert all(i < stored[line] for i, line in enumerate(lines) if line in stored)
    assert ran.count("net-weighted 5") == ran.count("net-weighted 6") == 2
    failures = [event for event in events if event.kind == "failed"]
    assert all(event.again for event in failures)
    assert len(failures) == 3
    assert ["node" in event.message for event in failures].count(True) == 1
    assert not ray.is_initialized()  # what we joined we left


@pytest.mark.weekly
def test_errors_are_recorded_and_the_worker_that_always_dies_too(toys, store, cluster):
    result_of = toys.result_of

    def work(shared, payload, fits):
        for fit in fits:
            if payload == "raise" and fit.method == "net-weighted":
                raise ValueError("no luck")
            if payload == "die":
                os._exit(1)
            result = result_of(fit)
            if payload == "no JSON":
                result.history.append({"x": {1}})
            yield result

    jobs = toys.grid(8)
    jobs = [Job(job.fits, payload) for job, payload in zip(jobs, ["raise", "die", None, "no JSON"], strict=True)]
    tally = run(jobs, work, store, backend="ray", address=cluster.address, n_jobs=2)
    assert tally[:2] == (3, 5)
    failed = store.scan().failed
    assert set(failed) == {jobs[0].fits[1], *jobs[1].fits, *jobs[3].fits}
    assert failed[jobs[0].fits[1]][:2] == ("ValueError", "no luck")
    assert 'raise ValueError("no luck")' in failed[jobs[0].fits[1]].traceback
    assert failed[jobs[1].fits[0]].type == "WorkerDiedError"
    assert failed[jobs[1].fits[0]].message.startswith("the worker process died")
    # what cannot be written is not computed again
    assert {fit: failure.attempts for fit, failure in failed.items()} == {
        fit: 1 if fit in jobs[3].fits else 2 for fit in failed
    }
    assert "must be a JSON value" in failed[jobs[3].fits[0]].message
    # the next start tries the failed ones only
    tally = run(toys.grid(8), work, store, backend="ray", address=cluster.address)
    assert tally[:2] == (8, 0)
    assert tally.ran == 5
    assert store.scan().failed == {}


@pytest.mark.weekly
def test_a_cluster_of_the_callers_stays_theirs_and_gpus_are_given_to_who_asks(toys, store, cluster):
    result_of = toys.result_of

    def work(shared, payload, fits):
        for fit in fits:
            result = result_of(fit)
            result.metrics["gpus"] = float(len(ray.get_gpu_ids()))
            result.metrics["seen"] = float(os.environ.get("CUDA_VISIBLE_DEVICES", "all") == "0")
            yield result

    ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
    try:
        assert run(toys.grid(4), work, store, backend="ray", gpus=0.5).done == 4
        assert run(toys.grid(8)[2:], work, store, backend="ray").done == 4
        assert ray.is_initialized()
    finally:
        ray.shutdown()
    results = store.results().set_index("seed")
    assert results[["gpus", "seen"]].loc[[0, 1]].eq(1.0).all(axis=None)
    assert results[["gpus", "seen"]].loc[[2, 3]].eq(0.0).all(axis=None)  # who asked for none sees none


def test_too_many_gpus_for_the_cluster_are_reported(toys, store, cluster):
    from adacsl.integrations.ray import check_gpus

    ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
    try:
        with pytest.warns(UserWarning, match=r"each job needs 64 GPUs, but no machine of the cluster offers more than"):
            check_gpus(64, local=False)
        with pytest.raises(ValueError, match=r"each job needs 64 GPUs, but this machine offers 1: give fewer --gpus"):
            check_gpus(64, local=True)
        check_gpus(0, local=True)
    finally:
        ray.shutdown()


def test_addresses_that_lead_nowhere_are_one_line(toys, store):
    with pytest.raises(ValueError, match="is an address of Ray Client, which cannot stream results: run on a machine"):
        run(toys.grid(2), toys.work_slowly, store, backend="ray", address="ray://head:10001")
    with pytest.raises(ConnectionError, match=r"no Ray cluster at 'nowhere' \(.*\): start one with  ray start --head"):
        run(toys.grid(2), toys.work_slowly, store, backend="ray", address="nowhere")
    assert not ray.is_initialized()


def test_nobody_at_an_address_is_reported_at_once(toys, store):
    with pytest.raises(ConnectionError, match=r"no Ray cluster at '127.0.0.1:1' \(.*\): start one with"):
        run(toys.grid(2), toys.work_slowly, store, backend="ray", address="127.0.0.1:1")


@pytest.mark.weekly
def test_print_is_put_back_where_ray_has_replaced_it(toys, store, cluster, tmp_path, monkeypatch):
    before, end = builtins.print, ray.shutdown

    def shutdown():
        builtins.print = lambda *words: None  # as Ray's progress bars do
        end()

    monkeypatch.setattr(ray, "shutdown", shutdown)
    shared = {"log": str(tmp_path / "log"), "seconds": 0.0}
    assert run(toys.grid(2), toys.work_slowly, store, shared=shared, backend="ray", address=cluster.address).done == 2
    assert builtins.print is before


@pytest.mark.weekly
def test_a_local_cluster_is_started_and_ended_and_stdout_is_left_alone(tmp_path):
    script = tmp_path / "local.py"
    text = f"""
        import os, sys
        sys.path.insert(0, {str(SCRIPT.parent)!r})
        import small_fits as toys
        from adacsl.comparison.runner import Job, run
        from adacsl.comparison.store import Store

        def work(shared, payload, fits):
            print("from a worker")
            if payload and not os.path.exists(payload):
                open(payload, "w").close()
                os._exit(1)
            for fit in fits:
                yield toys.result_of(fit)

        if __name__ == "__main__":
            with Store.open({str(tmp_path / "run")!r}, toys.IDENTITY) as store:
                jobs = [Job(job.fits, {str(tmp_path / "flag")!r}) for job in toys.grid(4)]
                tally = run(jobs, work, store, backend="ray", n_jobs=1)
            import ray
            assert not ray.is_initialized()
            assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
            print(tally.done, tally.failed)
    """
    script.write_text(re.sub(r"^        ", "", text, flags=re.MULTILINE))
    environment = {**os.environ, "PYTHONPATH": str(SCRIPT.parent)}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=120, env=environment
    )
    assert done.stdout == "4 0\n", done.stderr
    assert (tmp_path / "flag").exists()


def test_ray_is_not_imported_unless_asked_for():
    code = (
        "import sys, tempfile; from adacsl.comparison.runner import run; from adacsl.comparison.store import Store\n"
        "sys.modules['ray'] = None\n"
        "store = Store.open(tempfile.mkdtemp(), {}); run([], None, store)\n"
        "from adacsl.comparison.fits import FitKey; from adacsl.comparison.runner import Job\n"
        "run([Job((FitKey('a', 1.0, 'b', 0),))], None, store, backend='ray')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].endswith("needs 'ray': run  pip install 'adacsl[ray]'")
