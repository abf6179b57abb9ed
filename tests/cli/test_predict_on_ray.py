"""adacsl predict --backend ray on a real Ray cluster of several nodes, some of which die in the middle."""

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

import adacsl as library
from adacsl.decision.policy import Policy
from adacsl.estimators.distributed_predict import predict_on
from adacsl.estimators.partitioned_predict import Request, make_plan
from adacsl.execution.executors import DEATHS, Placement

pytest.importorskip("ray", reason="needs adacsl[ray]")

import ray
from ray._private.state import available_resources_per_node
from ray.cluster_utils import Cluster

pytestmark = [
    pytest.mark.weekly,
    # Ray's own: pipes and log files of its processes that it leaves to the garbage collector
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
FILES, ROWS = 8, 10_000


@pytest.fixture(scope="module")
def cluster():
    """A cluster of one node; the test that removes one adds it first."""
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture(scope="module")
def data(tmp_path_factory, load_module):
    """Files of many rows with numbers of their own."""
    make_frame = load_module(Path(__file__).with_name("conftest.py")).make_frame
    folder = tmp_path_factory.mktemp("many")
    for number in range(FILES):
        rows = make_frame(ROWS, seed=number).assign(id=range(number * ROWS, (number + 1) * ROWS))
        rows.to_parquet(folder / f"part-{number:02d}.parquet")
    return folder


@pytest.fixture
def planned(place, data, tmp_path):
    model = library.load(place / "model")
    request = Request(model.costs_, Policy(), ["id"], 200)  # small pieces take their time
    return make_plan(model, place / "model", str(data), tmp_path / "out", request, None, "cpu")


def test_every_row_is_predicted_once_though_a_node_dies(adacsl, place, data, planned, cluster, tmp_path):
    doomed = cluster.add_node(num_cpus=1)
    doomed_id, killed = doomed.node_id, False
    plan, units = planned
    reports = []
    for report in predict_on(plan, units, placement=Placement("ray", cluster.address, 2)):
        reports.append(report)
        busy = not available_resources_per_node().get(doomed_id, {}).get("CPU")
        if busy and not killed:
            cluster.remove_node(doomed, allow_graceful=False)
            killed = True
    assert killed
    assert len(reports) == FILES
    assert not ray.is_initialized()  # what we joined we left
    assert [report.failed for report in reports] == [None] * FILES
    assert sorted(report.name for report in reports) == [unit.name for unit in units]
    assert [report.summary["rows"] for report in reports] == [ROWS] * FILES
    result = pd.read_parquet(tmp_path / "out").sort_values("id", ignore_index=True)
    assert result["id"].tolist() == list(range(FILES * ROWS))
    output = adacsl(
        "predict", place / "model", data, "--keep", "id", "--batch-rows", 200, "--out", tmp_path / "p.parquet"
    )
    assert output.code == 0
    wanted = pd.read_parquet(tmp_path / "p.parquet")
    pd.testing.assert_frame_equal(result, wanted, check_exact=True)
    # the same command takes up what the cluster has done, and clears away what the dead left
    output = adacsl("predict", place / "model", data, "--keep", "id", "--out", tmp_path / "out", "--json")
    assert output.json["resumed"] == FILES
    assert not list((tmp_path / "out").glob(".*.draft"))


def test_a_part_that_kills_its_worker_is_given_up_and_the_others_go_on(planned, cluster, tmp_path):

    log, driver = tmp_path / "log", os.getpid()

    class Deadly(dict):
        def __contains__(self, name):
            if os.getpid() != driver:
                with log.open("a") as file:
                    file.write("x")
                os._exit(1)
            return False

    plan, units = planned
    units = [units[0], units[1]._replace(part=units[1].part._replace(said=Deadly())), units[2]]
    reports = {
        report.name: report for report in predict_on(plan, units, placement=Placement("ray", cluster.address, 1))
    }
    assert log.read_text() == "x" * (DEATHS + 1)
    bad = reports.pop(units[1].name)
    assert bad.failed == f"{units[1].part.path}: its worker died again and again (out of memory?)"
    assert [report.summary["rows"] for report in reports.values()] == [ROWS, ROWS]


def test_machines_that_do_not_see_the_folders_end_the_run(planned, cluster, tmp_path):
    plan, units = planned
    first = next(
        predict_on(plan._replace(out=tmp_path / "gone"), units, placement=Placement("ray", cluster.address, 1))
    )
    assert first.hopeless
    assert "all must see model, data and --out" in first.failed


def test_a_cluster_of_the_callers_stays_theirs(planned, cluster):
    ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
    try:
        plan, units = planned
        assert len(list(predict_on(plan, units[:2], placement=Placement("ray", "auto", 1)))) == 2
        assert ray.is_initialized()
    finally:
        ray.shutdown()


def test_no_server_at_an_address_is_one_line(refused, place, data, tmp_path):
    where = ("--backend", "ray", "--address", "127.0.0.1:1")
    line = refused("predict", place / "model", data, "--out", tmp_path / "out", *where)
    assert "no Ray cluster at '127.0.0.1:1'" in line


def started(place, data, out, *words):
    command = [sys.executable, "-m", "adacsl.cli", "predict", place / "model", data, "--out", out, "--backend", "ray"]
    return subprocess.Popen(
        [*map(str, command), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def test_a_local_cluster_is_started_for_the_run_and_stdout_is_the_answer(place, data, tmp_path, adacsl):
    run = started(place, data, tmp_path / "out", "--n-jobs", "2", "--json")
    out, err = run.communicate(timeout=300)
    assert (run.returncode, err) == (0, "")
    assert out.count("\n") == 1
    assert f'"rows": {FILES * ROWS}, ' in out


def test_ctrl_c_keeps_finished_files_and_the_same_command_goes_on(place, data, tmp_path, adacsl):
    out = tmp_path / "out"
    run = started(place, data, out, "--n-jobs", "1", "--batch-rows", "100")
    while not list(out.glob("*.parquet")):
        assert run.poll() is None, run.communicate()
        time.sleep(0.05)
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does
    output, err = run.communicate(timeout=60)
    assert (run.returncode, output) == (130, "")
    assert err == f"stopped: what is finished is kept in {out}; the same command resumes from there\n"
    done = len(list(out.glob("*.parquet")))
    assert 0 < done < FILES
    again = adacsl("predict", place / "model", data, "--out", out, "--json").json
    assert (again["rows"], again["resumed"]) == (FILES * ROWS, done)
