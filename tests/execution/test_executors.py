"""Worker processes: what they return, what becomes of their failures, and that time and Ctrl-C end them."""

import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info

from adacsl.execution import processes
from adacsl.execution.executors import (
    DEATHS,
    LOSSES,
    OutOfTimeError,
    Placement,
    Report,
    WorkerDiedError,
    open_executor,
    run_tasks,
)
from adacsl.execution.threads import MANY_ROWS, limited, limited_for, one_thread_if_forked, thread_settings, threads_for


def opened(work, shared, n_jobs=0):
    return open_executor(work, shared, Placement(), n_workers=n_jobs, threads=1)


def updates(work, shared, tasks, n_jobs=0, **settings):
    return list(run_tasks(opened(work, shared, n_jobs), tasks, **settings))


def run(work, shared, tasks, n_jobs=0, **settings):
    """Return the last result or error of each task, by its number."""
    return {u.number: u.value for u in updates(work, shared, tasks, n_jobs, **settings) if ended(u)}


def ended(update):
    return update.kind == "result" or (update.kind == "failed" and not update.again)


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
    """Do what a task states; the functions live here, so that workers can have them."""
    kind, *given = task
    if kind == "add":
        yield shared + given[0]
    if kind == "pid":
        yield os.getpid()
    if kind == "raise":
        raise given[0]
    if kind == "sleep":
        time.sleep(given[0])
        yield "slept"
    if kind == "touch":
        Path(given[0]).write_text("x")
        time.sleep(0.2)
        yield "touched"
    if kind == "threads":
        yield os.environ["OMP_NUM_THREADS"]
    if kind == "several":
        yield from range(given[0])
    if kind == "unpicklable":
        yield threading.Lock()
    if kind == "once":
        first = not Path(given[0]).exists()
        Path(given[0]).write_text("x")
        if first:
            os.kill(os.getpid(), signal.SIGKILL)
        yield "at last"
    if kind == "die":
        time.sleep(given[0])
        os._exit(7)


both = pytest.mark.parametrize("n_jobs", [0, 2])


@both
def test_every_task_is_answered_once_by_its_number(n_jobs):
    tasks = [("add", 1), ("raise", ValueError("no")), ("add", 3), ("pid",)]
    result = run(act, 10, tasks, n_jobs)
    assert sorted(result) == [0, 1, 2, 3]
    assert (result[0], result[2]) == (11, 13)
    assert isinstance(result[1], ValueError)
    assert str(result[1]) == "no"
    assert (result[3] == os.getpid()) == (n_jobs == 0)


@both
def test_results_come_one_after_another_and_then_the_task_is_done(n_jobs):
    result = [(u.kind, u.value) for u in updates(act, None, [("several", 3)], n_jobs)]
    assert result == [("started", None), ("result", 0), ("result", 1), ("result", 2), ("done", None)]


def test_nothing_to_do_is_done():
    assert updates(act, None, []) == []


def test_an_error_brings_its_traceback_from_the_worker():
    error = run(act, None, [("raise", ValueError("no"))], 1)[0]
    assert "raise given[0]" in str(error.__cause__)


def test_what_cannot_be_sent_is_an_error_of_its_task():
    result = run(act, 1, [("add", threading.Lock()), ("unpicklable",), ("add", 2)], 1)
    assert "pickle" in str(result[0])
    assert "pickle" in str(result[1])
    assert result[2] == 3


def test_here_no_task_is_begun_after_the_deadline():
    result = run(act, 0, [("sleep", 0.01), ("add", 2), ("add", 3)], deadline=lambda: time.monotonic() - 1)
    assert [type(result[number]) for number in range(3)] == [str, OutOfTimeError, OutOfTimeError]


@pytest.mark.parametrize("n_jobs", [0, 2])
def test_tasks_begin_as_chosen_and_what_nobody_chooses_is_out_of_time(n_jobs):
    def largest(tasks):
        """Return the place of the largest number below 9."""
        known = [number for _, number in tasks]
        return max((place for place, number in enumerate(known) if number < 9), key=known.__getitem__, default=None)

    tasks = [("add", 1), ("add", 9), ("add", 3), ("add", 2)]
    updates = list(run_tasks(opened(act, 0, n_jobs), tasks, choose=largest))
    assert [update.number for update in updates if update.kind == "started"] == [2, 3, 0]
    assert {update.number: update.value for update in updates if update.kind == "result"} == {0: 1, 2: 3, 3: 2}
    (late,) = [update for update in updates if update.kind == "failed"]
    assert late.number == 1
    assert isinstance(late.value, TimeoutError)
    assert not late.again


def test_at_the_deadline_all_that_runs_and_waits_is_out_of_time():
    end = [math.inf]

    def deadline():
        return end[0]

    result = {}
    begun = time.monotonic()
    tasks = [("add", 1), ("sleep", 600), ("sleep", 600), ("sleep", 600), ("sleep", 600)]

    def remaining(task):
        return None if task == tasks[0] and result else task

    for update in run_tasks(opened(act, 0, 2), tasks, deadline=deadline, remaining=remaining):
        if ended(update):
            result[update.number] = update.value
            end[0] = min(end[0], begun)  # once one has succeeded
    assert result.pop(0) == 1
    assert sorted(result) == [1, 2, 3, 4]
    assert all(isinstance(outcome, TimeoutError) for outcome in result.values())


def test_a_process_that_ends_fails_its_own_task_only(tmp_path):
    file = tmp_path / "touched"
    result = run(act, 0, [("die", 0.1), ("touch", str(file)), ("add", 5)], n_jobs=2)
    assert isinstance(result[0], WorkerDiedError)
    assert str(result[0]) == "the worker process died with exit code EXIT(7) (out of memory?)"
    assert result[1] == "touched"
    assert result[2] == 5


def test_a_task_whose_process_was_killed_runs_again(tmp_path):
    result = updates(act, 0, [("once", str(tmp_path / "flag")), ("add", 5)], n_jobs=1)
    (failed,) = (update for update in result if update.kind == "failed")
    assert failed.again
    assert "SIGKILL(-9)" in str(failed.value)
    assert [update.value for update in result if update.kind == "result"] == [5, "at last"]


def test_a_process_that_is_killed_while_it_waits_is_replaced():
    executor = opened(act, 0, 1)
    result = run_tasks(executor, [("pid",), ("add", 2)])
    for update in result:
        if update.number == 0 and update.kind == "result":
            pid = update.value
        if update.number == 0 and update.kind == "done":
            os.kill(pid, signal.SIGKILL)
            executor._idle[0].process.join()
        if ended(update) and update.number == 1:
            assert update.value == 2


def test_the_process_of_a_worker_need_not_hold_the_only_end_of_its_pipe(monkeypatch):
    """A process that a worker leaves behind holds its pipe; the exit code shows that the worker has ended."""
    monkeypatch.setattr(processes, "LOOK_SECONDS", 0.2)

    def work(shared, task):
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        os._exit(7)
        yield

    assert isinstance(run(work, None, [1], 1)[0], WorkerDiedError)


def test_idle_updates_come_while_nothing_else_happens():
    kinds = [update.kind for update in updates(act, None, [("sleep", 1.0)], 1, beat=0.1)]
    assert kinds[0] == "started"
    assert set(kinds[1:-2]) == {"idle"}
    assert kinds[-2:] == ["result", "done"]


def test_workers_have_their_share_of_threads():
    assert run(act, None, [("threads",)], n_jobs=1) == {0: "1"}


def test_workers_end_when_the_run_is_closed():
    result = run_tasks(opened(act, None, 1), [("pid",), ("sleep", 60)])
    pid = next(update.value for update in result if update.kind == "result")
    result.close()
    assert ends(pid)


def test_a_full_disk_is_one_line(monkeypatch, tmp_path):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(processes, "pack", full)
    with pytest.raises(OSError, match=r"could not write the data for the workers to .*: No space left on device; free"):
        opened(act, None, 2)


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
        from adacsl.execution.executors import Placement, open_executor, run_tasks

        def work(shared, task):
            with open(shared, "w") as file:
                file.write(str(os.getpid()))
            os.replace(shared, shared + ".done")
            time.sleep(120)
            yield

        if __name__ == "__main__":
            list(run_tasks(open_executor(work, sys.argv[1], Placement(), n_workers=1, threads=1), [0]))
        """)
    )
    result = tmp_path / "pid"
    parent = subprocess.Popen([sys.executable, str(script), str(result)])
    done = result.with_name("pid.done")
    for _ in range(300):
        if done.exists():
            break
        time.sleep(0.1)
    worker = int(done.read_text())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert ends(worker)


# the rule for lost workers


class PretendedExecutor:
    """Ends tasks at once: each as it states, then with a result."""

    def __init__(self, n_workers=3):
        self.n_workers, self.begun, self.killed, self._reports = n_workers, [], None, []

    def submit(self, number, task):
        self.begun.append(task[0])
        kind = task[1].pop(0) if task[1] else None
        if kind is None:
            self._reports += [Report(number, "result", task[0] + 10), Report(number, "done")]
        else:
            self._reports.append(Report(number, kind, RuntimeError(kind)))

    def wait(self, timeout=None):
        reports, self._reports = self._reports, []
        yield from reports

    def close(self, *, kill):
        self.killed = kill


@pytest.mark.parametrize(("kind", "times"), [("died", DEATHS), ("lost", LOSSES), ("raised", 2)])
def test_a_task_is_sent_again_but_not_for_ever(kind, times):
    executor = PretendedExecutor()
    tasks = [(1, []), (2, [kind] * times), (3, [kind] * (times + 1))]
    result = {u.number: u.value for u in run_tasks(executor, tasks, retries=2) if ended(u)}
    assert (result[0], result[1]) == (11, 12)
    assert str(result[2]) == kind
    assert executor.begun.count(2) == executor.begun.count(3) == times + 1
    assert executor.killed is False


def test_a_task_that_raised_is_not_sent_again_unless_asked_for():
    executor = PretendedExecutor()
    result = [u for u in run_tasks(executor, [(1, ["raised"])]) if u.kind == "failed"]
    assert [u.again for u in result] == [False]


def test_only_what_is_left_of_a_task_runs_again_and_nothing_where_nothing_is_left():
    executor = PretendedExecutor()
    left = {1: None, 2: (20, [])}

    def remaining(task):
        return left[task[0]] if task[0] in executor.begun and task[0] in left else task

    updates = list(run_tasks(executor, [(1, ["died"]), (2, ["lost"])], remaining=remaining))
    assert executor.begun == [1, 2, 20]
    assert [u.number for u in updates if u.kind == "done"] == [0, 1]
    assert [u.value for u in updates if u.kind == "result"] == [30]


def test_the_executor_is_closed_whatever_ends_the_run():
    executor = PretendedExecutor()
    result = run_tasks(executor, [(1, []), (2, [])])
    next(result)
    result.close()
    assert executor.killed is True


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"backend": "dask"}, ValueError, "backend must be 'processes' .* or 'ray' .*, got 'dask'"),
        ({"n_jobs": 0}, ValueError, "n_jobs must be a whole number of at least 1, got 0"),
        ({"n_jobs": 2.5}, ValueError, "n_jobs must be a whole number of at least 1, got 2.5"),
        ({"n_jobs": True}, ValueError, "n_jobs must be a whole number of at least 1, got True"),
        ({"address": "auto"}, ValueError, "address and gpus are for backend='ray'"),
        ({"gpus": 1}, ValueError, "address and gpus are for backend='ray'"),
        ({"backend": "ray", "gpus": math.nan}, ValueError, "gpus must be a number of at least 0, got nan"),
        ({"backend": "ray", "gpus": "two"}, ValueError, "gpus must be a number of at least 0, got 'two'"),
        (
            {"backend": "ray", "address": 6379},
            ValueError,
            "address must be a text such as 'auto' or 'host:port', got 6",
        ),
    ],
)
def test_places_that_make_no_sense_are_refused(given, error, match):
    with pytest.raises(error, match=match):
        Placement(**given)
