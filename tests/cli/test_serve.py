"""``adacsl serve`` as a process of its own, on this machine's loopback."""

import errno
import json
import multiprocessing
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from adacsl import CostMatrix, CostSensitiveClassifier
from adacsl.neural import NeuralLearner

ROWS = pd.DataFrame(np.random.default_rng(0).normal(size=(120, 2)), columns=["debt", "age"])
LABELS = (ROWS["debt"] > 0.5).astype(int)
STARTED = []


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    made = CostSensitiveClassifier(CostMatrix(fp=1, fn=6), learner=LogisticRegression(), random_state=0).fit(
        ROWS, LABELS
    )
    made.save(folder := tmp_path_factory.mktemp("serve") / "model")
    return made, folder


@contextmanager
def served(folder, place, *words, start=None):
    """Serve from another process; yield its number and address; end it whatever happens."""
    command = ["serve", str(folder), "--port", "0", "--device", "cpu", *words]
    with (place / "out").open("w") as out, (place / "err").open("w") as err:
        number = start(command, out, err)
    try:
        yield number, address_in(place / "err")
    finally:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(number, 0)
        for process in STARTED:
            process.poll()


def fork(command, out, err):
    """Start it in a copy of this process, which has imported everything already."""
    number = os.fork()
    if number:
        return number
    code = 1
    try:
        from adacsl.cli.app import run

        sys.stdout, sys.stderr = out, err
        code = run(command)
        out.flush()
    finally:
        os._exit(code)


def spawn(command, out, err):
    """Start it as a user would."""
    STARTED.append(subprocess.Popen([sys.executable, "-m", "adacsl.cli", *command], stdout=out, stderr=err))
    return STARTED[-1].pid


def address_in(path, seconds=120):
    """Wait for the line that states where the server is."""
    for _ in range(seconds * 10):
        if result := re.search(r"http://127\.0\.0\.1:\d+", path.read_text()):
            return result[0]
        time.sleep(0.1)
    raise TimeoutError(path.read_text())


ROW = ROWS[:1].to_dict(orient="records")
FORKED = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


def post_bytes(rows=ROW, length=None):
    """A request for decisions as it goes over the line, and its body apart."""
    body = rows if isinstance(rows, bytes) else json.dumps({"rows": rows}).encode()
    length = len(body) if length is None else length
    return f"POST /predict HTTP/1.1\r\nhost: here\r\ncontent-length: {length}\r\n\r\n".encode(), body


def connect(address, seconds=60):
    host, port = address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=seconds)


def read_answer(line):
    """Read one answer of a connection that may be kept open: status, headers and body."""
    file = line.makefile("rb")
    status = int(file.readline().split()[1])
    headers = {}
    while text := file.readline().decode().strip():
        name, _, value = text.partition(":")
        headers[name.lower()] = value.strip().lower()
    return status, headers, file.read(int(headers.get("content-length", -1)))


def counted(address):
    """Return the requests that the server has counted, by status."""
    text = httpx.get(f"{address}/metrics", timeout=60).text
    return {status: float(n) for status, n in re.findall(r'adacsl_requests_total{status="(\d+)"} (\S+)', text)}


def children_of(number):
    """Return the processes whose parent is this one, without helpers of multiprocessing."""
    text = "".join(path.read_text() for path in Path(f"/proc/{number}/task").glob("*/children"))
    result = [int(word) for word in text.split()]
    return [child for child in result if b"resource_tracker" not in Path(f"/proc/{child}/cmdline").read_bytes()]


def wait_for(true, seconds=60, step=0.1):
    """Wait until something holds."""
    for _ in range(int(seconds / step)):
        if result := true():
            return result
        time.sleep(step)
    raise TimeoutError


def code_of(number):
    """Wait for a process to end; return its exit code."""
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def wait_until_ready(address, seconds=120):
    for _ in range(seconds * 10):
        try:
            if httpx.get(f"{address}/ready", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise TimeoutError(f"{address} does not answer")


@FORKED
def test_a_server_answers_and_ends_politely(model, refused, tmp_path):
    classifier, folder = model
    records = ROWS.to_dict(orient="records")
    with served(folder, tmp_path, start=fork) as (number, address):
        wait_until_ready(address)
        result = httpx.post(f"{address}/predict", json={"rows": records}, timeout=60).json()["rows"]
        assert [one["decision"] for one in result] == classifier.predict(ROWS).tolist()
        port = address.rpartition(":")[2]
        taken = refused("serve", folder, "--port", port, "--device", "cpu")
        assert taken == (
            f"error: cannot listen at 127.0.0.1 port {port}: {os.strerror(errno.EADDRINUSE)}; give another port with "
            "--port, or --port 0 for any"
        )
        # half a request is there when the server is told to stop: it is answered, others are not taken any more
        body = json.dumps({"rows": records[:1]}).encode()
        with socket.create_connection(("127.0.0.1", int(port)), timeout=60) as line:
            head = f"POST /predict HTTP/1.1\r\nhost: here\r\ncontent-length: {len(body)}\r\n\r\n"
            line.sendall(head.encode() + body[:9])
            time.sleep(0.5)
            os.kill(number, signal.SIGTERM)
            time.sleep(0.5)
            assert os.waitpid(number, os.WNOHANG) == (0, 0)
            line.sendall(body[9:])
            answer = line.makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["rows"] == result[:1]
        assert code_of(number) == 0
    assert (tmp_path / "out").read_text() == f"stopped serving {folder}\n"
    assert (tmp_path / "err").read_text().count("\n") == 1


@pytest.mark.weekly
def test_several_processes_share_a_port_and_what_they_count(model, tmp_path):
    classifier, folder = model
    with served(folder, tmp_path, "--workers", "2", "--json", start=spawn) as (number, address):
        wait_until_ready(address)
        for _ in range(40):  # each on a connection of its own, so that both get some
            answer = httpx.post(f"{address}/predict", json={"rows": ROWS[:3].to_dict(orient="records")}, timeout=60)
            assert [one["decision"] for one in answer.json()["rows"]] == classifier.predict(ROWS[:3]).tolist()
        assert "adacsl_rows_total 120.0" in httpx.get(f"{address}/metrics").text
        os.kill(number, signal.SIGTERM)
        assert code_of(number) == 0
    assert json.loads((tmp_path / "out").read_text())["address"] == address


def test_what_makes_no_sense_is_refused_at_once(model, refused, tmp_path):
    _, folder = model
    assert "--batch-limit must be at least 1, got 0" in refused("serve", folder, "--batch-limit", 0)
    assert "--workers must be at least 1, got 0" in refused("serve", folder, "--workers", 0)
    assert "--port must be at most 65535, got 70000" in refused("serve", folder, "--port", 70_000)
    assert "cannot listen at 'nowhere.invalid'" in refused("serve", folder, "--host", "nowhere.invalid", "--port", 0)
    assert f"there is no model folder {tmp_path / 'gone'}" in refused("serve", tmp_path / "gone", "--port", 0)


NET = """
from torch import nn

def net(n_features):
    return nn.Sequential(nn.Linear(n_features, 4), nn.ReLU(), nn.Linear(4, 1))
"""


@FORKED
def test_a_model_with_a_network_of_ones_own_is_served_with_its_factory(refused, tmp_path, monkeypatch):
    (tmp_path / "served_nets.py").write_text(NET)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    import served_nets

    learner = NeuralLearner(module=served_nets.net, epochs=1)
    classifier = CostSensitiveClassifier(CostMatrix(fp=1, fn=6), learner=learner, random_state=0).fit(ROWS, LABELS)
    classifier.save("model")
    assert "--module module:function" in refused("serve", "model", "--port", 0)
    with served("model", tmp_path, "--module", "served_nets:net", start=fork) as (_, address):
        wait_until_ready(address)
        answer = httpx.post(f"{address}/predict", json={"rows": ROWS.to_dict(orient="records")}, timeout=60).json()
    np.testing.assert_allclose(
        [row["probability"] for row in answer["rows"]], classifier.predict_proba(ROWS)[:, 1], rtol=1e-5
    )


# several processes


@pytest.fixture
def forked_workers(monkeypatch):
    """Workers are copies of this process, which has imported everything already."""
    monkeypatch.setattr("adacsl.serving.server.SPAWN", multiprocessing.get_context("fork"))


def two_workers(number, address):
    """Wait until both workers have an event loop, and thus their model, and return their numbers."""
    wait_until_ready(address)
    result = wait_for(lambda: len(result := children_of(number)) == 2 and result)
    wait_for(lambda: all(any("eventpoll" in name for name in opened_by(worker)) for worker in result))
    return result


@FORKED
def test_a_worker_never_serves_another_model(model, tmp_path, forked_workers):
    classifier, folder = model
    shutil.copytree(folder, own := tmp_path / "own")
    other = CostSensitiveClassifier(CostMatrix(fp=1, fn=6), learner=LogisticRegression(), random_state=0).fit(
        ROWS, 1 - LABELS
    )
    expected = classifier.predict(ROWS[:3]).tolist()
    assert other.predict(ROWS[:3]).tolist() != expected
    with served(own, tmp_path, "--workers", "2", start=fork) as (number, address):
        first, second = two_workers(number, address)
        other.save(own)
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: "another model" in (tmp_path / "err").read_text())
        wait_for(lambda: children_of(number) == [second])
        time.sleep(1)
        assert children_of(number) == [second]  # the rest serves on, and nothing is started again and again
        for _ in range(20):
            answer = httpx.post(f"{address}/predict", json={"rows": ROWS[:3].to_dict(orient="records")}, timeout=60)
            assert [one["decision"] for one in answer.json()["rows"]] == expected
        os.kill(second, signal.SIGKILL)
        assert code_of(number) == 2
    died, refused, again, twice, left = (tmp_path / "err").read_text().splitlines()[1:]
    assert died == f"error: worker {first} died with exit code -9: another takes its place"
    assert refused.startswith(f"error: {own} holds another model than the one asked for: its digest is ")
    assert refused.endswith("this worker is not replaced: put the model back, or start the server again")
    assert again == f"error: worker {second} died with exit code -9: another takes its place"
    assert twice == refused
    assert left.startswith("error: no worker is left: ")


@FORKED
def test_a_worker_whose_model_is_gone_is_not_started_again_and_again(model, tmp_path, forked_workers):
    shutil.copytree(model[1], own := tmp_path / "own")
    with served(own, tmp_path, "--workers", "2", start=fork) as (number, address):
        first, second = two_workers(number, address)
        shutil.rmtree(own)
        for worker in (first, second):
            os.kill(worker, signal.SIGKILL)
        assert code_of(number) == 2
    lines = (tmp_path / "err").read_text().splitlines()[1:]
    assert all(line.startswith("error: ") for line in lines)
    assert sum(f"there is no model folder {own}" in line for line in lines) == 2


@FORKED
def test_workers_are_replaced_and_end_with_their_parent(model, tmp_path, forked_workers):
    with served(model[1], tmp_path, "--workers", "2", start=fork) as (number, address):
        first, second = two_workers(number, address)
        os.kill(first, signal.SIGKILL)
        last = wait_for(lambda: len(result := children_of(number)) == 2 and first not in result and result)
        assert second in last
        wait_until_ready(address)
        try:
            os.kill(number, signal.SIGKILL)
            wait_for(lambda: not any(Path(f"/proc/{child}/exe").exists() for child in last), seconds=20)
        finally:
            for child in last:
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)


@FORKED
def test_workers_that_die_before_they_serve_are_not_replaced_for_ever(model, tmp_path, forked_workers, monkeypatch):
    monkeypatch.setattr("adacsl.serving.server.work", lambda *_: os._exit(5))
    with served(model[1], tmp_path, "--workers", "2", start=fork) as (number, _):
        assert code_of(number) == 2
    lines = (tmp_path / "err").read_text().splitlines()[1:]
    assert sum(line.endswith("died with exit code 5: another takes its place") for line in lines) == 4
    assert sum(line.endswith("died with exit code 5: the 3rd in a row, it is not replaced") for line in lines) == 2
    assert lines[6:] == ["error: no worker is left: solve the problem reported above, and start again"]


@FORKED
def test_workers_end_politely(model, tmp_path, forked_workers):
    with served(model[1], tmp_path, "--workers", "2", start=fork) as (number, address):
        two_workers(number, address)
        os.kill(number, signal.SIGTERM)
        assert code_of(number) == 0
    assert (tmp_path / "out").read_text() == f"stopped serving {model[1]}\n"
    assert (tmp_path / "err").read_text().count("\n") == 1


# over a socket: slow, absent and malformed clients


@FORKED
def test_a_request_that_is_on_its_way_at_the_end_is_answered(model, tmp_path):
    head, body = post_bytes()
    with served(model[1], tmp_path, start=fork) as (number, address), ExitStack() as lines:
        wait_until_ready(address)
        stored = [lines.enter_context(connect(address)) for _ in range(3)]
        for line in stored:
            line.sendall(head + body)
            status, headers, _ = read_answer(line)
            assert (status, headers.get("connection")) == (200, None)
        stored[0].sendall(head[:20])
        os.kill(number, signal.SIGTERM)
        time.sleep(0.3)
        stored[0].sendall(head[20:] + body)
        stored[1].sendall(head + body)
        for line in stored[:2]:
            status, headers, _ = read_answer(line)
            assert (status, headers["connection"]) == (200, "close")
            assert line.recv(1) == b""
        assert stored[2].recv(1) == b""  # nothing was sent: it is closed soon
        assert code_of(number) == 0
    assert (tmp_path / "err").read_text().count("\n") == 1


@FORKED
def test_incomplete_requests_block_no_others(model, tmp_path):
    head, _ = post_bytes(length=1000)
    with served(model[1], tmp_path, start=fork) as (_, address), ExitStack() as lines:
        wait_until_ready(address)
        for _ in range(140):
            line = lines.enter_context(connect(address))
            line.sendall(head + b"{")
        time.sleep(0.5)
        assert httpx.get(f"{address}/ready", timeout=60).status_code == 200
        assert httpx.post(f"{address}/predict", json={"rows": ROW}, timeout=60).status_code == 200


@FORKED
def test_a_body_or_a_head_that_does_not_come_ends_the_connection(model, tmp_path, monkeypatch):
    from adacsl.serving import app

    monkeypatch.setattr(app, "BODY_SECONDS", 1.0, raising=False)
    monkeypatch.setattr("adacsl.serving.connections.HEAD_SECONDS", 1.0)
    head, _ = post_bytes(length=1000)
    with served(model[1], tmp_path, start=fork) as (_, address), ExitStack() as lines:
        wait_until_ready(address)
        slow, begun, silent = (lines.enter_context(connect(address, seconds=20)) for _ in range(3))
        slow.sendall(head + b"{")
        begun.sendall(head[:-5])
        status, headers, text = read_answer(slow)
        assert (status, headers["connection"]) == (408, "close")
        assert "the body was incomplete after 1 second: 1 of 1,000 bytes received" in json.loads(text)["detail"]
        assert [line.recv(100) for line in (slow, begun, silent)] == [b""] * 3
        assert counted(address) == {"408": 1}
    assert (tmp_path / "err").read_text().count("\n") == 1


@FORKED
def test_a_client_that_leaves_is_no_fault(model, tmp_path):
    head, body = post_bytes(ROW * 500)
    with served(model[1], tmp_path, start=fork) as (_, address):
        wait_until_ready(address)
        for sent in (head, head + body[:-1], head + body):
            with connect(address) as line:
                line.sendall(sent)
        result = wait_for(lambda: sum((result := counted(address)).values()) == 3 and result)
        assert set(result) == {"200", "499"}
    assert (tmp_path / "err").read_text().count("\n") == 1


@FORKED
def test_an_unread_answer_is_given_up(model, tmp_path, monkeypatch):
    monkeypatch.setattr("adacsl.serving.connections.SEND_SECONDS", 1.0)
    head, body = post_bytes(ROW * 10_000)
    with served(model[1], tmp_path, start=fork) as (number, address), ExitStack() as lines:
        wait_until_ready(address)
        for _ in range(4):
            line = lines.enter_context(socket.socket())
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.connect(("127.0.0.1", int(address.rpartition(":")[2])))
            for _ in range(4):
                line.sendall(head + body)
        port = int(address.rpartition(":")[2])
        held = lambda: sum(f":{port:04X} " in text for text in established(number))  # noqa: E731
        wait_for(lambda: held() >= 4, seconds=20)
        wait_for(lambda: held() == 0, seconds=40)


def opened_by(number):
    """Return what a process has open, as Linux names it."""
    result = []
    for path in Path(f"/proc/{number}/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            result.append(str(path.readlink()))
    return result


def established(number):
    """Return the sockets of a process as Linux lists them."""
    own = set(opened_by(number))
    rows = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return [row for row in rows if f"socket:[{row.split()[9]}]" in own and row.split()[3] != "0A"]


@FORKED
def test_malformed_requests_leave_no_traceback(model, tmp_path):
    bad_chunk = b"transfer-encoding: chunked\r\n\r\nzz\r\n"
    large = post_bytes(b"", length=10**9)[0]
    with served(model[1], tmp_path, start=fork) as (_, address):
        wait_until_ready(address)
        for sent in (
            b"\x16\x03\x01\x02\x00",  # TLS
            b"GET /health HTTP/1.1\r\n\r\n",
            b"GET /docs HTTP/1.1\r\nhost: here\r\n" + bad_chunk,
            b"POST /predict HTTP/1.1\r\nhost: here\r\n" + bad_chunk,
            b"POST /predict HTTP/1.1\r\nhost: here\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
            b"GET /health HTTP/1.1\r\nhost: here\r\nx: " + b"y" * 100_000,
        ):
            with connect(address, seconds=20) as line:
                line.sendall(sent)
                assert line.recv(12) == b"HTTP/1.1 400", sent
        with connect(address, seconds=20) as line:  # answered, and then it goes on wrongly
            line.sendall(b"POST /predict HTTP/1.1\r\nhost: here\r\ncontent-type: text/csv\r\n" + bad_chunk[:-4])
            line.sendall(large[:0])
            time.sleep(0.3)
        with connect(address, seconds=20) as line:
            line.sendall(large + b"{" * 1000)
            assert line.recv(12) == b"HTTP/1.1 413"
    result = (tmp_path / "err").read_text()
    assert "Traceback" not in result
    assert "exception" not in result.lower()
