"""The runner: only missing fits run, failures are recorded and tried again, and killing it loses nothing."""

import contextlib
import hashlib
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from adacsl.comparison import runner
from adacsl.comparison.fits import FitKey
from adacsl.comparison.runner import Job, RunInterrupted, run
from adacsl.comparison.store import Store, StoreError
from adacsl.execution import threads as execution_threads

SCRIPT = Path(__file__).parent / "scripts" / "small_fits.py"


@pytest.fixture(scope="module")
def toys(load_module):
    return load_module(SCRIPT)


@pytest.fixture
def store(toys, tmp_path):
    with Store.open(tmp_path / "run", toys.IDENTITY) as opened:
        yield opened


def plain(toys):
    """The work of most tests: what a job does is its payload."""
    result_of = toys.result_of

    def work(shared, payload, fits):
        for fit in fits:
            if payload is not None:
                payload(fit)
            yield result_of(fit)

    return work


def fits_of(jobs):
    return {fit for job in jobs for fit in job.fits}


def drafts(folder):
    return sorted(folder.rglob(".*.draft"))


def raises(text):
    def act(fit):
        raise ValueError(text)

    return act


def at_second_fit(act):
    def later(fit):
        if fit.method == "net-weighted":
            act(fit)

    return later


def once(flag, act):
    """Do something the first time only, whichever process it is."""

    def first(fit):
        try:
            flag.touch(exist_ok=False)
        except FileExistsError:
            return
        act(fit)

    return first


def _death():
    def act(fit):
        os.kill(os.getpid(), signal.SIGKILL)

    return act


dies = _death()  # travels by value: workers cannot import this file


both = pytest.mark.parametrize("n_jobs", [1, 2])


# the ordinary course


@both
def test_all_fits_run_once_and_a_second_run_does_nothing(toys, store, n_jobs):
    jobs, events = toys.grid(6), []
    tally = run(jobs, plain(toys), store, n_jobs=n_jobs, on_event=events.append)
    assert tally[:2] == (6, 0)
    assert tally.ran == 6
    assert store.scan().done == fits_of(jobs)
    begun = {fit for event in events if event.kind == "running" for fit in event.fits}
    assert begun == set(fits_of(jobs))
    events = [event for event in events if event.kind not in ("running", "alive")]
    assert [event.kind for event in events] == ["start", *["done"] * 6, "end"]
    assert [event.done for event in events] == [0, 1, 2, 3, 4, 5, 6, 6]
    assert {event.fits[0]: event.cost for event in events[1:-1]} == {
        fit: toys.result_of(fit).metrics["normalized_cost"] for fit in fits_of(jobs)
    }
    before = {path: path.stat().st_mtime_ns for path in store.folder.rglob("*.json")}
    again = run([Job(job.fits, raises("it ran")) for job in jobs], plain(toys), store, n_jobs=n_jobs)
    assert again[:2] == (6, 0)
    assert again.ran == 0
    assert before == {path: path.stat().st_mtime_ns for path in store.folder.rglob("*.json")}
    assert not drafts(store.folder)


@both
def test_a_job_gets_only_its_missing_fits(toys, store, tmp_path, n_jobs):
    jobs, log = toys.grid(6), tmp_path / "log"
    for fit in (jobs[0].fits[1], *jobs[2].fits):
        store.write(toys.result_of(fit))
    events = []
    shared = {"log": str(log), "seconds": 0}
    tally = run(jobs, toys.work_slowly, store, shared=shared, n_jobs=n_jobs, on_event=events.append)
    assert tally.done == 6
    assert tally.ran == 3
    assert sorted(log.read_text().splitlines()) == ["net 0", "net 1", "net-weighted 1"]
    kept = {event.fits[0]: event.cost for event in events if event.kind == "kept"}
    assert kept == {c: toys.result_of(c).metrics["normalized_cost"] for c in (jobs[0].fits[1], *jobs[2].fits)}


def test_results_carry_where_they_came_from(toys, store):
    job = toys.grid(2)[0]
    run([job], plain(toys), store, n_jobs=2)
    result = store.read(job.fits[0]).provenance
    assert result["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert result["versions"]["numpy"] == np.__version__
    assert {"torch", "scikit-learn", "adacsl"} <= set(result["versions"])
    assert (result["seed"], result["device"]) == (0, "cpu")
    assert result["started"] <= result["finished"]


def test_shared_data_are_mapped_not_copied_and_each_worker_may_change_its_own(toys, store):
    data = np.arange(200_000, dtype=np.float64)

    def work(shared, payload, fits):
        x = shared["x"]
        base = x
        while isinstance(base, np.ndarray):
            base = base.base
        for fit in fits:
            assert x[7] == 7
            assert float(x.sum()) == shared["sum"]
            assert "mmap" in repr(getattr(base, "obj", base))
            yield result_of(fit)
        x[7] = 8.0
        x[7] = 7.0

    result_of = toys.result_of
    shared = {"x": data, "sum": float(data.sum()), "empty": np.zeros(0), "text": "y"}
    assert run(toys.grid(8), work, store, shared=shared, n_jobs=2).failed == 0
    assert data[7] == 7
    assert not list(store.folder.glob(".shared*"))


def test_threads_are_shared_among_the_workers(toys, store, monkeypatch):
    result_of = toys.result_of

    def work(shared, payload, fits):
        import torch

        for fit in fits:
            result = result_of(fit)
            result.metrics["threads"] = torch.get_num_threads()
            result.metrics["variable"] = int(os.environ["OMP_NUM_THREADS"])
            yield result

    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(runner, "cores", lambda: 3)
    run(toys.grid(2), work, store, n_jobs=2)
    assert set(store.results()["threads"]) == {1}
    assert set(store.results()["variable"]) == {1}


@pytest.mark.parametrize(("asked", "share", "threads"), [("", 4, 4), ("2", 4, 2), ("8", 4, 4), ("x", 4, 4), ("", 0, 1)])
def test_fewer_threads_asked_for_are_respected(monkeypatch, asked, share, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert execution_threads.threads_for("OMP_NUM_THREADS", share) == threads


# failures


@both
def test_a_failing_job_is_recorded_tried_again_and_the_others_go_on(toys, store, n_jobs):
    jobs, events = toys.grid(6), []
    jobs[1] = Job(jobs[1].fits, at_second_fit(raises("no <b>luck</b>")))
    tally = run(jobs, plain(toys), store, n_jobs=n_jobs, retries=2, on_event=events.append)
    assert tally[:2] == (5, 1)
    bad = jobs[1].fits[1]
    scan = store.scan()
    assert scan.done == fits_of(jobs) - {bad}
    assert set(scan.failed) == {bad}
    failure = scan.failed[bad]
    assert failure[:2] == ("ValueError", "no <b>luck</b>")
    assert failure.attempts == 3
    assert "in raises" not in failure.message
    assert "raise ValueError(text)" in failure.traceback
    failed = [event for event in events if event.kind == "failed"]
    assert [event.again for event in failed] == [True, True, False]
    assert {event.fits for event in failed} == {(bad,)}
    assert failed[0].message == "ValueError: no <b>luck</b>"
    # the next start tries again
    tally = run(toys.grid(6), plain(toys), store, n_jobs=n_jobs)
    assert tally[:2] == (6, 0)
    assert tally.ran == 1
    assert store.scan().failed == {}
    assert not list((store.folder / "failed").rglob("*.json"))


@both
def test_a_job_that_fails_once_is_done_in_the_same_run(toys, store, tmp_path, n_jobs):
    jobs = toys.grid(4)
    jobs[0] = Job(jobs[0].fits, once(tmp_path / "flag", raises("once")))
    tally = run(jobs, plain(toys), store, n_jobs=n_jobs)
    assert tally[:2] == (4, 0)
    assert store.scan().failed == {}


@both
def test_no_retries_means_one_attempt(toys, store, n_jobs):
    job = toys.grid(2)[0]
    tally = run([Job(job.fits, raises("x"))], plain(toys), store, n_jobs=n_jobs, retries=0)
    assert tally[:2] == (0, 2)
    assert {failure.attempts for failure in store.scan().failed.values()} == {1}


@both
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("another fit", r"RuntimeError: the work yielded a result it was not asked for: toy, ratio 8, net, seed 99"),
        (
            "too few",
            r"RuntimeError: the work ended without a result for 1 of its fits, such as toy, ratio 8, net-weighted, ",
        ),
        ("no JSON", r"TypeError: fit.history\[0\].x must be a JSON value .*, got set"),
        ("lengths", r"ValueError: toy, ratio 8, net, seed 0: scores and decisions must be vectors of one length"),
        ("exit", r"SystemExit: 3"),
    ],
)
def test_faulty_work_is_a_failure_that_states_why(toys, store, n_jobs, fault, message):
    result_of = toys.result_of

    def work(shared, payload, fits):
        if fault == "exit":
            sys.exit(3)
        result = result_of(fits[0])
        if fault == "another fit":
            yield result_of(FitKey("toy", 8.0, "net", 99))
        elif fault == "no JSON":
            result.history.append({"x": {1}})
            result.history.pop(0)
        elif fault == "lengths":
            result = type(result)(result.fit, result.metrics, result.scores, result.decisions[:3])
        yield result

    tally = run(toys.grid(2), work, store, n_jobs=n_jobs, retries=0)
    assert tally.failed > 0
    failure = next(iter(store.scan().failed.values()))
    assert re.match(message, f"{failure.type}: {failure.message}")


def test_a_job_that_cannot_be_sent_fails_alone(toys, store):
    jobs = toys.grid(6)
    jobs[0] = Job(jobs[0].fits, threading.Lock())
    tally = run(jobs, plain(toys), store, n_jobs=2)
    assert tally[:2] == (4, 2)
    assert "pickle" in next(iter(store.scan().failed.values())).message


def test_a_dying_worker_takes_no_other_job_with_it(toys, store):
    jobs, events = toys.grid(8), []
    jobs[1] = Job(jobs[1].fits, at_second_fit(dies))
    tally = run(jobs, plain(toys), store, n_jobs=2, on_event=events.append)
    assert tally[:2] == (7, 1), store.failures().to_dict("records")
    failure = store.scan().failed[jobs[1].fits[1]]
    assert failure.type == "WorkerDiedError"
    assert failure.message == "the worker process died with exit code SIGKILL(-9) (out of memory?)"
    assert failure.attempts == 2
    assert [event.fits for event in events if event.kind == "failed"] == [(jobs[1].fits[1],)] * 2
    assert len([event for event in events if event.kind == "done"]) == 7
    assert not drafts(store.folder)


def test_a_job_whose_worker_died_once_is_done(toys, store, tmp_path):
    jobs = toys.grid(4)
    jobs[0] = Job(jobs[0].fits, once(tmp_path / "flag", dies))
    assert run(jobs, plain(toys), store, n_jobs=2)[:2] == (4, 0), store.failures().to_dict("records")
    assert store.scan().failed == {}


def test_a_damaged_result_is_reported_kept_and_run_again(toys, store):
    jobs, events = toys.grid(4), []
    run(jobs, plain(toys), store, n_jobs=1)
    path = store.folder / "fits" / "toy" / "net" / "ratio-8_seed-1.json"
    path.write_bytes(path.read_bytes()[:-30])
    tally = run(jobs, plain(toys), store, n_jobs=1, on_event=events.append)
    assert tally[:2] == (4, 0)
    assert tally.ran == 1
    (event,) = [event for event in events if event.kind == "corrupt"]
    assert (
        "was damaged (its digest does not fit its content): the file was moved there, and its fit runs" in event.message
    )
    (kept,) = (store.folder / "corrupt").rglob("*.json")
    assert str(kept) in event.message
    assert store.scan().corrupt == {}


@both
def test_a_full_disk_ends_the_run_in_one_line_and_leaves_nothing_half_written(toys, store, n_jobs):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(event):
        if event.kind == "done":
            resource.setrlimit(resource.RLIMIT_FSIZE, (300, before[1]))  # writes stop in the middle of a file

    try:
        with pytest.raises(StoreError, match=r"could not write .*: File too large; free some space, check permissions"):
            run([*toys.grid(2), Job(())], plain(toys), store, n_jobs=n_jobs, on_event=fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert store.scan().done == {toys.grid(2)[0].fits[0]}
    assert not drafts(store.folder)


# what is asked for


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"backend": "dask"}, r"backend must be 'processes' \(this machine\) or 'ray' \(a cluster\), got 'dask'"),
        ({"n_jobs": 0}, "n_jobs must be a whole number of at least 1, got 0"),
        ({"retries": -1}, "retries must not be negative, got -1"),
        ({"gpus": 1.0}, "address and gpus are for backend='ray'; processes of this machine see all its GPUs"),
        ({"address": "auto"}, "address and gpus are for backend='ray'"),
    ],
)
def test_wrong_settings_are_named(toys, store, settings, message):
    with pytest.raises(ValueError, match=message):
        run(toys.grid(2), plain(toys), store, **settings)


def test_when_the_time_is_over_workers_end_and_what_is_done_stays(toys, store):
    def sleep_long(fit):
        time.sleep(60.0)

    jobs = [
        Job((FitKey("made", 4.0, "net", seed), FitKey("made", 4.0, "net-weighted", seed)), at_second_fit(sleep_long))
        for seed in range(3)
    ]
    begin = time.monotonic()
    with pytest.raises(RunInterrupted):
        run(jobs, plain(toys), store, n_jobs=2, seconds=6.0)
    assert time.monotonic() - begin < 15.0
    # the first fits of the two jobs that had begun
    assert {fit.method for job in jobs for fit in job.fits if store.has(fit)} == {"net"}
    assert not drafts(store.folder)


def test_a_run_states_now_and_then_that_it_is_alive(toys, store, monkeypatch):
    monkeypatch.setattr(runner, "BEAT", 0.2)
    events = []
    run([Job((FitKey("made", 4.0, "net", 0),), lambda fit: time.sleep(1.5))], plain(toys), store, n_jobs=2,
        on_event=events.append)  # fmt: skip
    kinds = [event.kind for event in events]
    assert kinds[0] == "start"
    assert kinds[-2:] == ["done", "end"]
    assert len(kinds) > 5
    assert kinds[1] == "running"
    assert set(kinds[2:-2]) == {"alive"}


def test_in_this_process_the_fit_at_hand_is_finished_first(toys, store):
    jobs = [Job((FitKey("made", 4.0, "net", seed), FitKey("made", 4.0, "net-weighted", seed))) for seed in range(2)]
    with pytest.raises(RunInterrupted, match="1 of 4 fits are done"):
        run(jobs, plain(toys), store, n_jobs=1, seconds=0.0)
    assert run(jobs, plain(toys), store, n_jobs=1, seconds=60.0).done == 4


def test_a_fit_in_two_jobs_is_refused(toys, store):
    jobs = toys.grid(2) * 2
    with pytest.raises(ValueError, match="every fit must belong to one job, but 2 belong to several, such as toy, "):
        run(jobs, plain(toys), store)


def test_no_jobs_are_no_work(toys, store):
    assert run([], plain(toys), store)[:2] == (0, 0)


# interrupting and killing


def test_control_c_in_this_process_states_how_to_go_on(toys, store):
    def interrupt(fit):
        raise KeyboardInterrupt

    jobs = toys.grid(4)
    jobs[1] = Job(jobs[1].fits, interrupt)
    with pytest.raises(KeyboardInterrupt, match="interrupted: 2 of 4 fits are done; start it again to go on"):
        run(jobs, plain(toys), store, n_jobs=1)
    with pytest.raises(RunInterrupted):
        run(jobs, plain(toys), store, n_jobs=1)
    assert store.scan().failed == {}


@pytest.fixture
def start():
    """Start runs of the script; whatever is left of them is ended."""
    started = []

    def launch(folder, log, fits, seconds):
        command = [sys.executable, str(SCRIPT), str(folder), str(log), str(fits), str(seconds)]
        with log.with_suffix(".errors").open("wb") as errors:  # a pipe would stay open as long as any worker
            started.append(subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=errors))
        return started[-1]

    yield launch
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def members(session):
    """Return the processes of a session that still run."""
    result = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            result.append(int(path.parent.name))
    return result


def wait_until(condition, seconds=120.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.005)


def lines(log):
    return log.read_text().splitlines() if log.exists() else []


def snapshot(folder):
    """Return what tells a finished file from another one in its place."""
    result = {}
    for path in folder.glob("fits/*/*/*.json"):
        status = path.stat()
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        result[path.relative_to(folder)] = (status.st_ino, status.st_mtime_ns, digest)
    return result


def name_in_log(path):
    fit = json.loads(path.read_text())["fit"]
    return f"{fit['method']} {fit['seed']}"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc to see processes")
@pytest.mark.parametrize("times", [4, pytest.param(10, marks=pytest.mark.weekly)])
def test_killing_it_loses_no_fit_and_runs_none_twice(toys, tmp_path, start, times):
    folder, log, n = tmp_path / "run", tmp_path / "log", 160
    rng, known, finished, sessions, kills = random.Random(4), {}, set(), [], 0
    while kills < times:
        begun = len(lines(log))
        process = start(folder, log, n, 0.03)
        sessions.append(process.pid)
        if rng.random() < 0.7:  # while fits run
            enough = begun + 1 + rng.randint(1, 9)
            wait_until(lambda enough=enough: len(lines(log)) >= enough)
            time.sleep(rng.uniform(0, 0.06))
        else:  # while it starts
            time.sleep(rng.uniform(0.05, 0.5))
        assert process.poll() is None, log.with_suffix(".errors").read_text()
        if rng.random() < 0.5:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
        kills += 1
        assert finished.isdisjoint(lines(log)[begun:]), "a finished fit ran again"
        now = snapshot(folder)
        assert known.items() <= now.items(), "a finished file has changed"
        known = now
        finished = {name_in_log(folder / path) for path in known}
    assert times < len(known) < n  # it was killed in the middle, not before or after the work
    begun = len(lines(log))
    assert start(folder, log, n, 0.0).wait(60) == 0
    assert finished.isdisjoint(lines(log)[begun:])
    assert known.items() <= snapshot(folder).items()
    with Store.open(folder, toys.IDENTITY) as store:
        scan = store.scan()
        assert scan.done == fits_of(toys.grid(n))
        assert len(store.results()) == n
    assert (scan.failed, scan.corrupt) == ({}, {})
    assert not drafts(folder)
    wait_until(lambda: not any(members(session) for session in sessions), seconds=5)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc to see processes")
def test_workers_end_soon_after_the_run_was_killed(tmp_path, start):
    log = tmp_path / "log"
    process = start(tmp_path / "run", log, 8, 60)  # jobs that would take minutes
    wait_until(lambda: len(lines(log)) > 2)
    assert len(members(process.pid)) >= 3
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: not members(process.pid), seconds=3)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc to see processes")
@pytest.mark.parametrize("whom", [pytest.param("all", marks=pytest.mark.weekly), "parent"])
def test_control_c_ends_workers_quickly_and_can_go_on(toys, tmp_path, start, whom):
    folder, log = tmp_path / "run", tmp_path / "log"
    with Store.open(folder, toys.IDENTITY) as store:
        store.write(toys.result_of(FitKey("toy", 8.0, "net", 0)))
    process = start(folder, log, 8, 60)
    wait_until(lambda: len(lines(log)) > 2)
    begin = time.monotonic()
    # a terminal sends it to the whole group
    os.killpg(process.pid, signal.SIGINT) if whom == "all" else os.kill(process.pid, signal.SIGINT)
    process.wait(timeout=20)
    assert time.monotonic() - begin < 10
    assert process.returncode == 130
    assert "Traceback" not in log.with_suffix(".errors").read_text()
    assert log.with_suffix(".stop").read_text() == (
        "interrupted: 1 of 8 fits are done; start it again to go on from there"
    )
    wait_until(lambda: not members(process.pid), seconds=3)
    assert not drafts(folder)
    with Store.open(folder, toys.IDENTITY) as store:
        assert run(toys.grid(8), plain(toys), store, n_jobs=1).ran == 7
