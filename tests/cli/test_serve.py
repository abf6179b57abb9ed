"""``adacsl serve`` as a process of its own, on this machine's loopback."""

import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress

import httpx
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from adacsl import CostMatrix, Method

ROWS = pd.DataFrame(np.random.default_rng(0).normal(size=(120, 2)), columns=["debt", "age"])
LABELS = (ROWS["debt"] > 0.5).astype(int)
STARTED = []


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    made = Method(CostMatrix(fp=1, fn=6), learner=LogisticRegression(), random_state=0).fit(ROWS, LABELS)
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
    """Wait for the line that says where the server is."""
    for _ in range(seconds * 10):
        if found := re.search(r"http://127\.0\.0\.1:\d+", path.read_text()):
            return found[0]
        time.sleep(0.1)
    raise TimeoutError(path.read_text())


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


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_server_answers_and_ends_politely(model, refused, tmp_path):
    classifier, folder = model
    records = ROWS.to_dict(orient="records")
    with served(folder, tmp_path, start=fork) as (number, address):
        wait_until_ready(address)
        found = httpx.post(f"{address}/predict", json={"rows": records}, timeout=60).json()["rows"]
        assert [one["decision"] for one in found] == classifier.predict(ROWS).tolist()
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
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["rows"] == found[:1]
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
