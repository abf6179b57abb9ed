"""Worker processes: what they return, what becomes of their failures, and that time and Ctrl-C end them."""

import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info

from adacsl.execution.executors import LOSSES, Where, crew_of, read_trainer, run_tasks
from adacsl.execution.threads import MANY_ROWS, limited, limited_for, one_thread_if_forked, thread_settings, threads_for


def never(task):
    return False


def run(work, shared, tasks, workers=0, skip=never, deadline=math.inf):
    return list(run_tasks(work, shared, tasks, workers=workers, threads=1, skip=skip, deadline=deadline))


def ends(pid):
    """Tell whether a process ends within ten seconds."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


def act(shared, task):
    """Do what a task says; the functions live here, so that workers can have them."""
    kind, *given = task
    if kind == "add":
        return shared + given[0]
    if kind == "pid":
        return os.getpid()
    if kind == "raise":
        raise given[0]
    if kind == "sleep":
        time.sleep(given[0])
        return "slept"
    if kind == "touch":
        Path(given[0]).write_text("x")
        time.sleep(0.2)
        return "touched"
    if kind == "threads":
        return os.environ["OMP_NUM_THREADS"]
    time.sleep(given[0])
    os._exit(7)


@pytest.mark.parametrize("workers", [0, 2])
def test_every_task_is_answered_once_by_its_number(workers):
    tasks = [("add", 1), ("raise", ValueError("no")), ("add", 3), ("pid",)]
    found = dict(run(act, 10, tasks, workers))
    assert sorted(found) == [0, 1, 2, 3]
    assert (found[0], found[2]) == (11, 13)
    assert isinstance(found[1], ValueError)
    assert str(found[1]) == "no"
    assert (found[3] == os.getpid()) == (workers == 0)


def test_nothing_to_do_is_done():
    assert run(act, None, []) == []


def test_here_no_task_is_begun_after_the_deadline_once_one_has_succeeded():
    late = time.monotonic() - 1
    found = run(act, 0, [("raise", ValueError("first")), ("add", 2), ("add", 3)], deadline=late)
    assert [type(outcome).__name__ for _, outcome in found] == ["ValueError", "int", "TimeoutError"]


def test_here_a_skipped_task_is_out_of_time_but_never_the_first():
    found = run(act, 0, [("add", 1), ("add", 2)], skip=lambda task: True)
    assert found[0] == (0, 1)
    assert isinstance(found[1][1], TimeoutError)


def test_at_the_deadline_all_that_runs_and_waits_is_out_of_time():
    begun = time.monotonic()
    tasks = [("add", 1), ("sleep", 60), ("sleep", 60), ("sleep", 60), ("sleep", 60)]
    found = dict(run(act, 0, tasks, workers=2, deadline=begun + 2.0))
    assert time.monotonic() - begun < 20
    assert found.pop(0) == 1
    assert sorted(found) == [1, 2, 3, 4]
    assert all(isinstance(outcome, TimeoutError) for outcome in found.values())


def test_the_first_success_is_waited_for():
    found = dict(
        run(act, 0, [("sleep", 0.5), ("raise", ValueError("no")), ("sleep", 60)], 2, deadline=time.monotonic())
    )
    assert found[0] == "slept"
    assert isinstance(found[2], TimeoutError)


def test_a_dead_process_costs_its_own_task_only(tmp_path):
    file = tmp_path / "touched"
    found = dict(run(act, 0, [("die", 0.1), ("touch", str(file)), ("add", 5)], workers=2))
    assert isinstance(found[0], RuntimeError)
    assert "died" in str(found[0])
    assert found[1] == "touched"
    assert found[2] == 5


def test_workers_have_their_share_of_threads():
    found = run(act, None, [("threads",)], workers=1)
    assert found == [(0, "1")]


def test_workers_end_when_nobody_listens_any_more():
    outcomes = run_tasks(
        act, None, [("pid",), ("sleep", 60)], workers=1, threads=1, skip=never, deadline=math.inf
    )  # fmt: skip
    _, pid = next(outcomes)
    outcomes.close()
    assert ends(pid)


def test_shares_of_threads_respect_the_user(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("MKL_NUM_THREADS", "all")
    assert threads_for("OMP_NUM_THREADS", 4) == 2
    assert threads_for("OMP_NUM_THREADS", 1) == 1
    assert threads_for("MKL_NUM_THREADS", 4) == 4
    assert threads_for("MKL_NUM_THREADS", 0) == 1
    assert thread_settings(3)["OMP_NUM_THREADS"] == "2"


def test_limits_of_threads_are_given_back():
    torch = pytest.importorskip("torch")
    torch.set_num_threads(2)
    before = [(own["filepath"], own["num_threads"]) for own in threadpool_info()]
    with limited(1):
        assert torch.get_num_threads() == 1
        assert all(own["num_threads"] == 1 for own in threadpool_info())
    assert torch.get_num_threads() == 2
    assert [(own["filepath"], own["num_threads"]) for own in threadpool_info()] == before


def test_limits_of_two_threads_at_once_are_given_back():
    torch = pytest.importorskip("torch")
    torch.set_num_threads(2)
    before = [(own["filepath"], own["num_threads"]) for own in threadpool_info()]
    first_in, second_in, first_out = (threading.Event() for _ in range(3))
    inside = []

    def first():
        with limited(1):
            first_in.set()
            second_in.wait(10)
        first_out.set()

    def second():
        first_in.wait(10)
        with limited(1):
            second_in.set()
            first_out.wait(10)  # who came first is gone
            inside.append([own["num_threads"] for own in threadpool_info()])

    both = [threading.Thread(target=each) for each in (first, second)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert set(inside[0]) == {1}
    assert [(own["filepath"], own["num_threads"]) for own in threadpool_info()] == before
    with ThreadPoolExecutor(1) as pool:  # torch gives new threads what the last one left
        assert pool.submit(torch.get_num_threads).result() == 2


def test_a_forked_process_uses_one_thread(monkeypatch):
    torch = pytest.importorskip("torch")
    torch.set_num_threads(2)
    with one_thread_if_forked():
        assert torch.get_num_threads() == 2
    monkeypatch.setattr("adacsl.execution.threads.HOME", os.getpid() + 1)
    for one in (one_thread_if_forked(), limited_for(MANY_ROWS)):
        with one:
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2


@pytest.mark.skipif(sys.platform == "win32", reason="no signals to processes")
def test_workers_end_with_a_killed_parent(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(
        textwrap.dedent("""
        import math, os, sys, time
        from adacsl.execution.executors import run_tasks

        def work(shared, task):
            with open(shared, "w") as file:
                file.write(str(os.getpid()))
            os.replace(shared, shared + ".done")
            time.sleep(120)

        if __name__ == "__main__":
            list(run_tasks(work, sys.argv[1], [0], workers=1, threads=1, skip=lambda t: False, deadline=math.inf))
        """)
    )
    told = tmp_path / "pid"
    parent = subprocess.Popen([sys.executable, str(script), str(told)])
    done = told.with_name("pid.done")
    for _ in range(300):
        if done.exists():
            break
        time.sleep(0.1)
    worker = int(done.read_text())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert ends(worker)


# other crews than processes


class GoneError(Exception):
    """A machine went away."""


class DeadError(Exception):
    """A process died."""


class PretendedCrew:
    """Does tasks at once; a task may say what happens to it first."""

    def __init__(self, workers, threads, shared):
        self.workers, self.shared = workers or 3, shared
        self.begun, self.at_once, self.ended = [], [], False

    def submit(self, work, task):
        future = Future()
        self.begun.append(task)
        fate = task[1].pop(0) if len(task) > 1 and task[1] else None
        if fate is not None:
            future.set_exception(fate)
        else:
            future.set_result(work(self.shared, task))
        return future

    def died(self, running):
        return {number for future, number in running.items() if future.done() and self._is(future, DeadError)}

    def lost(self, future):
        return self._is(future, GoneError)

    def outcome(self, future):
        return future.exception() or future.result()

    def end(self):
        self.ended = True

    @staticmethod
    def _is(future, kind):
        return isinstance(future.exception(), kind)


@pytest.fixture
def crews():
    opened = []

    def open_crew(*given):
        opened.append(PretendedCrew(*given))
        return opened[-1]

    return opened, open_crew


def add(shared, task):
    return shared + task[0]


def sent(open_crew, tasks, workers=0, **settings):
    usual = {"workers": workers, "threads": 1, "skip": never, "deadline": math.inf} | settings
    return dict(run_tasks(add, 10, tasks, open_crew=open_crew, **usual))


def test_a_task_whose_machine_went_away_is_sent_again_but_not_for_ever(crews):
    opened, open_crew = crews
    tasks = [(1, []), (2, [GoneError()] * LOSSES), (3, [GoneError()] * (LOSSES + 1))]
    found = sent(open_crew, tasks)
    assert (found[0], found[1]) == (11, 12)
    assert isinstance(found[2], GoneError)
    assert [task[0] for task in opened[0].begun].count(2) == LOSSES + 1
    assert opened[0].ended


def test_of_several_processes_that_died_at_once_each_task_runs_again_alone(crews):
    opened, open_crew = crews
    found = sent(open_crew, [(1, [DeadError()]), (2, [DeadError()]), (3, [])], workers=2)
    assert found == {0: 11, 1: 12, 2: 13}
    assert [task[0] for task in opened[0].begun][:4] == [1, 2, 1, 2]  # the suspects first, before 3 is begun


def test_one_process_that_died_is_the_fault_of_its_task(crews):
    _, open_crew = crews
    found = sent(open_crew, [(1, [DeadError()]), (2, [])], workers=1)
    assert isinstance(found[0], DeadError)
    assert found[1] == 12


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        (5, TypeError, r"trainer must be a dict such as \{'engine': 'ray', 'workers': 4\}, got 5"),
        ({"devices": 2}, ValueError, r"no setting 'devices' here; it has engine, address, workers, gpus\. Lightning's"),
        ({"engine": "dask"}, ValueError, "engine must be 'joblib' .* or 'ray' .*, got 'dask'"),
        ({"workers": 0}, ValueError, "workers must be a whole number of at least 1, got 0"),
        ({"workers": 2.5}, ValueError, "workers must be a whole number of at least 1, got 2.5"),
        ({"workers": True}, ValueError, "workers must be a whole number of at least 1, got True"),
        ({"address": "auto"}, ValueError, "address and gpus are for engine='ray'"),
        ({"gpus": 1}, ValueError, "address and gpus are for engine='ray'"),
        ({"engine": "ray", "gpus": math.nan}, ValueError, "gpus must be a number of at least 0, got nan"),
        ({"engine": "ray", "gpus": "two"}, ValueError, "gpus must be a number of at least 0, got 'two'"),
        ({"engine": "ray", "address": 6379}, ValueError, "address must be a text such as 'auto' or 'host:port', got 6"),
    ],
)
def test_places_that_make_no_sense_are_refused(given, error, match):
    with pytest.raises(error, match=match):
        read_trainer(given)


def test_without_a_trainer_it_is_this_machine():
    assert read_trainer(None) == Where()
    assert crew_of(Where(workers=3)) is None
