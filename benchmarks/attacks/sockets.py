"""`adacsl serve` over real sockets: slow, absent, malformed and too large requests, and signals under load."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from PIL import Image
from sklearn.linear_model import LogisticRegression

from adacsl import AdaCSLClassifier, CostMatrix, CostSensitiveClassifier
from adacsl.neural import NeuralLearner
from adacsl.serving import app, connections
from adacsl.serving.images import PIXELS
from benchmarks.attacks.scoreboard import Attack, Attempt

ARROW = "application/vnd.apache.arrow.stream"
COSTS = CostMatrix(fp=1, fn=6)
PATIENCE = 300.0
"""Seconds after which a server, or an answer, is taken for lost on a machine that does other things as well."""
SOON = 60.0
"""Seconds within which a proper request is answered whatever else goes on."""
LARGEST_ANSWER = 20_000
"""Bytes of an answer to a request that is refused."""
BAD = ("Traceback", "Exception", "ERROR", "Fatal error", "never retrieved")
"""What the log must not hold."""
MANY = 300
"""Connections of one attacker: more than the requests that may wait."""


class Reply(NamedTuple):
    """An answer: status (0: none came), headers and body."""

    status: int
    headers: dict[str, str]
    body: bytes


def make_request(
    body: bytes, *, kind: str = "application/json", path: str = "/predict", length: int | None = None
) -> bytes:
    """Return a request as it goes over the line."""
    size = len(body) if length is None else length
    head = f"POST {path} HTTP/1.1\r\nhost: here\r\ncontent-type: {kind}\r\ncontent-length: {size}\r\n\r\n"
    return head.encode() + body


def read_reply(file: Any) -> Reply:
    """Read one answer from a connection."""
    try:
        first = file.readline()
        if not re.match(rb"HTTP/1\.1 \d{3} ", first):
            return Reply(0, {}, first)
        headers = {}
        while line := file.readline().decode("latin-1").strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        return Reply(int(first.split()[1]), headers, file.read(int(headers.get("content-length", -1))))
    except OSError as error:
        return Reply(0, {}, str(error).encode())


class Served:
    """A server process, its log, and a proper request with the answer that is right."""

    def __init__(self, folder: Path, *words: str) -> None:
        rng = np.random.default_rng(0)
        rows = pd.DataFrame({"debt": rng.normal(size=200), "job": rng.choice(["a", "b"], 200)})
        labels = (rows["debt"] + (rows["job"] == "a") > 0.7).astype(int)
        model = CostSensitiveClassifier(COSTS, learner=LogisticRegression(), random_state=0).fit(rows, labels)
        self.folder, self.words, self.rows = folder, words, rows
        self.expected = model.predict_proba(rows)[:, 1]
        model.save(folder / "model")
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def log(self) -> str:
        """What it has written to stderr."""
        return (self.folder / "err").read_text(errors="replace")

    @cached_property
    def proper(self) -> bytes:
        """A proper request of three rows."""
        return make_request(self.as_json(slice(0, 3)))

    def as_json(self, which: slice) -> bytes:
        """Return rows as the body of a request."""
        return json.dumps({"rows": self.rows[which].to_dict(orient="records")}).encode()

    def as_arrow(self) -> bytes:
        """Return all rows as an Arrow stream."""
        sink = pa.BufferOutputStream()
        table = pa.table({"debt": self.rows["debt"].to_numpy(), "job": pa.array(self.rows["job"].tolist())})
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return bytes(sink.getvalue())

    def start(self) -> None:
        """Start the server where there is none, and wait until it answers."""
        if self.process is not None and self.process.poll() is None:
            return
        command = [sys.executable, "-m", "adacsl.cli", "serve", "model", "--port", "0", "--device", "cpu", *self.words]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        with (self.folder / "out").open("w") as out, (self.folder / "err").open("w") as err:
            self.process = subprocess.Popen(command, cwd=self.folder, stdout=out, stderr=err, env=environment)  # noqa: S603
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.process.poll() is None:
            if result := re.search(r"http://127\.0\.0\.1:(\d+)", self.log):
                self.port = int(result[1])
                if not self.probe():
                    return
            time.sleep(0.1)
        raise RuntimeError(f"the server does not start: {self.log[-500:]}")

    def connect(self, seconds: float = SOON) -> socket.socket:
        """Open a connection; whatever is waited for on it, no longer than this."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=seconds)

    def ask(self, sent: bytes, seconds: float = SOON) -> Reply:
        """Send something on a connection of its own, and return the answer."""
        try:
            with self.connect(seconds) as line:
                with contextlib.suppress(ConnectionError):
                    line.sendall(sent)  # it may answer before it has got everything
                with line.makefile("rb") as file:
                    return read_reply(file)
        except OSError as error:
            return Reply(0, {}, str(error).encode())

    def probe(self) -> str:
        """Return what is wrong with the answer to a proper request."""
        reply = self.ask(self.proper)
        if reply.status != 200:
            return f"a proper request gets {reply.status or 'no answer'} ({reply.body[:80]!r})"
        result = [row["probability"] for row in json.loads(reply.body)["rows"]]
        return "" if np.allclose(result, self.expected[:3]) else f"a proper request gets {result}"

    def faults(self) -> str:
        """Return what is wrong after a try: the process, its log, or the answer to a proper request."""
        if self.process is None or self.process.poll() is not None:
            return f"the server is gone, exit code {self.process and self.process.returncode}"
        log = self.log
        shown = [word for word in BAD if word in log]
        if shown:
            self.end()  # with a log of its own, the next try is judged alone
            return f"its log says {shown[0]}: {log[-300:]!r}"
        return self.probe()

    def end(self) -> None:
        """End the server and its workers."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


# slow, absent and leaving clients


def _held(sent: bytes, number: int, served: Served) -> str:
    """Keep many connections open that have sent this much, and ask properly meanwhile."""
    with contextlib.ExitStack() as lines:
        for _ in range(number):
            line = lines.enter_context(served.connect())
            with contextlib.suppress(ConnectionError):
                line.sendall(sent)
        return served.probe()


def _late(sent: bytes, limit: float, statuses: tuple[int, ...], served: Served) -> str:
    """Send a part of a request and nothing more: the server ends the connection in time."""
    with served.connect(limit + SOON) as line, line.makefile("rb") as file:
        line.sendall(sent)
        start = time.monotonic()
        reply = read_reply(file)
        seconds = time.monotonic() - start
        if b"timed out" in reply.body:
            return f"still open after {seconds:.0f} s"
        return "" if reply.status in statuses else f"answered {reply.status} ({reply.body[:80]!r})"


def _trickled(served: Served) -> str:
    """Send a body byte by byte, a few in a second."""
    with served.connect() as line, line.makefile("rb") as file:
        line.sendall(make_request(b"", length=1_000_000))
        end = time.monotonic() + app.BODY_SECONDS + connections.MARGIN + SOON
        try:
            while time.monotonic() < end:
                line.sendall(b"[")
                time.sleep(0.2)
        except ConnectionError:
            return ""
        return "" if read_reply(file).status == 408 else "it is still received"


def _left(cut: int, reset: bool, served: Served) -> str:
    """Leave after so many bytes of a request, politely or with a reset."""
    with served.connect() as line:
        if reset:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        line.sendall(served.proper[:cut])
    text = served.ask(b"GET /metrics HTTP/1.1\r\nhost: here\r\n\r\n").body.decode()
    return "counted as a fault of the server" if 'status="500"' in text else ""


def _unread(served: Served) -> str:
    """Ask for much on several connections and read nothing."""
    large = make_request(served.as_json(slice(0, 200)))
    with contextlib.ExitStack() as lines:
        for _ in range(20):
            line = lines.enter_context(socket.socket())
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.settimeout(5)
            line.connect(("127.0.0.1", served.port))
            with contextlib.suppress(OSError):
                line.sendall(large * 50)
        return served.probe()


def _pipelined(number: int, served: Served) -> str:
    """Send many requests at once on one connection: as many answers, in their order."""
    which = [i % len(served.rows) for i in range(number)]
    sent = b"".join(make_request(served.as_json(slice(i, i + 1))) for i in which)
    with served.connect() as line, line.makefile("rb") as file:
        threading.Thread(target=line.sendall, args=(sent,), daemon=True).start()
        for place, i in enumerate(which):
            reply = read_reply(file)
            if reply.status != 200:
                return f"answer {place} of {number} is {reply.status} ({reply.body[:80]!r})"
            if not np.isclose(json.loads(reply.body)["rows"][0]["probability"], served.expected[i]):
                return f"answer {place} is that of another request"
    return ""


# too large


def _large(make: Callable[[], bytes], served: Served) -> str:
    """Send a large body that is refused: the answer is short, and others are answered meanwhile."""
    replies: list[Reply] = []
    asking = threading.Thread(target=lambda: replies.append(served.ask(make_request(make()), PATIENCE)))
    asking.start()
    meanwhile = served.probe()
    asking.join()
    (reply,) = replies
    if reply.status not in (413, 422) or len(reply.body) > LARGEST_ANSWER:
        return f"answered {reply.status} with {len(reply.body):,} bytes ({reply.body[:80]!r})"
    return meanwhile


def _document(value: Any) -> bytes:
    return json.dumps(value).encode()


LONG = 31_000_000
LARGE: dict[str, Callable[[], bytes]] = {
    "a key of 31 MB": lambda: _document({"rows": [{"k" * LONG: 1}]}),
    "a key of 31 MB in place of rows": lambda: _document({"k" * LONG: 1}),
    "a value of 31 MB": lambda: _document({"rows": [{"debt": "v" * LONG, "job": "a"}]}),
    "1,000 keys of 30 kB": lambda: _document({"columns": {f"{i}{'k' * 30_000}": [1] for i in range(1000)}}),
    "a million empty lists": lambda: _document({"rows": [[]] * 1_000_000}),
    "nested a million times": lambda: b"[" * 1_000_000,
    "a number of a million digits": lambda: b'{"rows": [{"job": "a", "debt": ' + b"9" * 1_000_000 + b"}]}",
    "more bytes than are taken": lambda: b" " * (33 * 2**20),
}


def _pixels(_: Served) -> str:
    """Send many images that are large together, to a server of a model of images in this process."""

    def net() -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12 * 12 * 3, 1))

    rng = np.random.default_rng(0)
    settings = {"module": net, "epochs": 1, "augment": False}
    model = AdaCSLClassifier(COSTS, cv=None, learner=NeuralLearner(**settings), device="cpu", random_state=0)
    model.fit(rng.integers(0, 255, (24, 12, 12, 3), dtype=np.uint8), np.arange(24) % 2)
    server = connections.Server(app.make_app(model, device="cpu", threads=1))
    with socket.create_server(("127.0.0.1", 0)) as own:
        port = own.getsockname()[1]
        serving = threading.Thread(target=server.run, kwargs={"sockets": [own]}, daemon=True)
        serving.start()
        sink = io.BytesIO()
        Image.new("RGB", (5_000, 5_000)).save(sink, "PNG")
        one = base64.b64encode(sink.getvalue()).decode()
        sent = make_request(json.dumps({"rows": [{"image": one}] * 200}).encode())
        start = time.monotonic()
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as line, line.makefile("rb") as file:
            line.sendall(sent)
            reply = read_reply(file)
        server.should_exit = True
        serving.join(PATIENCE)
    refused = reply.status == 422 and f"{PIXELS:,}".encode() in reply.body
    return "" if refused and time.monotonic() - start < SOON else f"answered {reply.status} ({reply.body[:80]!r})"


# malformed


def _mutated(rng: random.Random, content: bytes) -> bytes:
    """Return bytes with a few of them changed, removed, doubled or cut off."""
    out = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(out))
        match rng.randrange(5):
            case 0:
                out[at] ^= 1 << rng.randrange(8)
            case 1:
                del out[at : at + rng.choice([1, 4, 30])]
            case 2:
                out[at:at] = out[at : at + rng.choice([1, 4, 30])]
            case 3:
                out[at:at] = rng.choice([b"\r\n", b"\x00", b"\xff", b'"', b"}", b"1e999", b"null"])
            case _:
                del out[max(at, 1) :]
    return bytes(out)


def _malformed(kind: str, seed: int, served: Served) -> str:
    """Send a malformed head, or a proper head with a malformed body: it is refused, or is still a proper one."""
    rng = random.Random(seed)  # noqa: S311
    sent = {
        "HTTP": lambda: _mutated(rng, served.proper),
        "JSON": lambda: make_request(_mutated(rng, served.as_json(slice(0, 5)))),
        "Arrow": lambda: make_request(_mutated(rng, served.as_arrow()), kind=ARROW),
    }[kind]()
    with served.connect() as line, line.makefile("rb") as file:
        line.sendall(sent)
        line.shutdown(socket.SHUT_WR)  # a body that it waits for does not come
        reply = read_reply(file)
    if reply.status >= 500 or len(reply.body) > LARGEST_ANSWER * 5:
        return f"answered {reply.status} with {len(reply.body):,} bytes ({reply.body[:80]!r})"
    return ""


HEADS = {
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "no host": b"GET /health HTTP/1.1\r\n\r\n",
    "a head of 1 MB": b"GET /health HTTP/1.1\r\nhost: here\r\nx: " + b"y" * 1_000_000,
    "two lengths": b"POST /predict HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
    "length and chunks": b"POST /predict HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ntransfer-encoding: gzip\r\n\r\nzz",
    "bad chunk": b"POST /predict HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    "bad chunk of a GET": b"GET /docs HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    "a length of 5,000 digits": b"POST /predict HTTP/1.1\r\nhost: a\r\ncontent-length: " + b"9" * 5_000 + b"\r\n\r\n",
    "websocket": b"GET /predict HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
    "unknown method": b"BREW /predict HTTP/1.1\r\nhost: a\r\n\r\n",
    "unknown path": b"GET /%00/../../etc/passwd HTTP/1.1\r\nhost: a\r\n\r\n",
}


def _head(sent: bytes, served: Served) -> str:
    reply = served.ask(sent)
    return "" if reply.status == 0 or 400 <= reply.status < 500 else f"answered {reply.status}"


# signals


def _stopped(keep: int, served: Served) -> str:
    """Send SIGTERM while many connections retry and again: every request that was sent is answered."""
    served.start()
    assert served.process is not None
    faults: list[str] = []
    stop = time.monotonic() + PATIENCE

    def load() -> None:
        try:
            with served.connect() as line, line.makefile("rb") as file:
                while time.monotonic() < stop:
                    line.sendall(served.proper)
                    reply = read_reply(file)
                    if reply.status != 200:
                        faults.append(f"a request gets {reply.status or 'no answer'} ({reply.body[:80]!r})")
                        return
                    if reply.headers.get("connection") == "close":
                        return
        except OSError as error:
            faults.append(f"a request is cut off ({error})")

    threads = [threading.Thread(target=load, daemon=True) for _ in range(keep)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    served.process.send_signal(signal.SIGTERM)
    for thread in threads:
        thread.join(PATIENCE)
    try:
        code = served.process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        served.end()
        return "still there"
    log, served.process = served.log, None
    if code or any(word in log for word in BAD):
        faults.append(f"exit code {code}, its log says {log[-300:]!r}")
    return "; ".join(faults[:3])


def _stopped_workers(served: Served) -> str:
    (served.folder / "pair").mkdir()
    pair = Served(served.folder / "pair", "--workers", "2")
    try:
        return _stopped(16, pair)
    finally:
        pair.end()


def _several(served: Served) -> str:
    """With two workers: one dies after the folder got another model, then the parent is killed."""
    (served.folder / "two").mkdir()
    two = Served(served.folder / "two", "--workers", "2")
    two.start()
    assert two.process is not None
    try:
        workers = _children(two.process.pid)
        _wait(lambda: all(map(_listens, workers)))
        CostSensitiveClassifier(COSTS, learner=LogisticRegression()).fit(
            two.rows, (two.rows["job"] == "a").astype(int)
        ).save(two.folder / "model")
        os.kill(workers[0], signal.SIGKILL)
        _wait(lambda: "holds another model" in two.log)
        wrong = {two.probe() for _ in range(50)} - {""}
        two.process.kill()
        with contextlib.suppress(TimeoutError):
            _wait(lambda: not any(Path(f"/proc/{one}/exe").exists() for one in workers), seconds=20)
            return "; ".join(wrong)
        return "workers go on without their parent"
    finally:
        two.end()


def _children(number: int) -> list[int]:
    text = "".join(path.read_text() for path in Path(f"/proc/{number}/task").glob("*/children"))
    result = [int(word) for word in text.split()]
    return [one for one in result if b"resource_tracker" not in Path(f"/proc/{one}/cmdline").read_bytes()]


def _listens(number: int) -> bool:
    """Return whether a worker has got as far as its event loop, and has therefore loaded its model."""
    try:
        return any("eventpoll" in os.readlink(one) for one in Path(f"/proc/{number}/fd").iterdir())  # noqa: PTH115  no path
    except OSError:
        return False


def _wait(true: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if result := true():
            return result
        time.sleep(0.2)
    raise TimeoutError


Case = Callable[[Served], str]


def _quick() -> dict[str, Case]:
    """Return tries that take no time limit."""
    half_head, half_body = b"POST /predict HTTP/1.1\r\nhost:", make_request(b"{", length=1000)
    made: dict[str, Case] = {
        f"{MANY} bodies that do not come": partial(_held, half_body, MANY),
        f"{MANY} heads that do not come": partial(_held, half_head, MANY),
        f"{connections.CONNECTIONS + 100} idle connections": partial(_held, b"", connections.CONNECTIONS + 100),
        "200 pipelined requests": partial(_pipelined, 200),
        "a client leaves in a body": partial(_left, -5, False),
        "a client resets in a body": partial(_left, -5, True),
        "a client leaves in a head": partial(_left, 20, False),
        "answers that nobody reads": _unread,
    }
    made |= {f"head: {name}": partial(_head, sent) for name, sent in HEADS.items()}
    made |= {f"malformed {kind}, {seed}": partial(_malformed, kind, seed) for kind in KINDS for seed in range(3)}
    return made


def _slow() -> dict[str, Case]:
    """Return tries that wait for time limits, take memory, or start servers of their own."""
    body = make_request(b"{", length=1000)
    late = app.BODY_SECONDS + connections.MARGIN
    made: dict[str, Case] = {name: partial(_large, make) for name, make in LARGE.items()}
    made |= {
        "200 images of 25 million pixels": _pixels,
        "a body that does not come": partial(_late, body, late, (408,)),
        "a head that does not come": partial(_late, b"POST /predict", connections.HEAD_SECONDS, (0,)),
        "nothing comes": partial(_late, b"", connections.HEAD_SECONDS, (0,)),
        "a body, byte by byte": _trickled,
        "two workers, another model, no parent": _several,
        "two workers, SIGTERM with 16 busy connections": _stopped_workers,
    }
    made |= {f"SIGTERM with {keep} busy connections": partial(_stopped, keep) for keep in (1, 4, 16, 32)}
    return made


KINDS: Sequence[str] = ("HTTP", "JSON", "Arrow")


def run(folder: Path, tries: int, seed: int) -> Iterator[Attempt]:
    """Yield tries: the quick ones and a large key, SIGTERM under load; in the long form all, and random ones."""
    rng = random.Random(seed)  # noqa: S311
    quick, slow = _quick(), _slow()
    cases = list(quick.items())
    if tries > len(quick) + len(slow):
        cases += slow.items()
        for number in range(tries - len(cases)):
            kind = rng.choice([*KINDS, "leaves"])
            case = partial(_left, rng.randrange(1, 300), rng.random() < 0.5)
            cases.append(
                (
                    f"{kind}, draw {number}",
                    case if kind == "leaves" else partial(_malformed, kind, rng.randrange(10**9)),
                )
            )
    else:
        cases = [
            *cases[: tries - 2],
            *((name, slow[name]) for name in ("a key of 31 MB", "SIGTERM with 16 busy connections")),
        ]
    served = Served(folder, "--batch-limit", "1000")
    try:
        for name, case in cases:
            served.start()
            try:
                fault = case(served)
            except (OSError, TimeoutError) as error:
                fault = f"{type(error).__name__}: {error}"
            yield Attempt(name, fault or ("" if "SIGTERM" in name else served.faults()))
    finally:
        served.end()


ATTACKS = (
    Attack(
        "sockets",
        "`adacsl serve` over real sockets: idle connections, heads and bodies that do not come or come byte by byte, "
        "clients that leave or do not read, pipelined requests, keys and values of 31 MB, many pixels, malformed HTTP, "
        "JSON and Arrow, SIGTERM under load, another model in the folder, SIGKILL of the parent. Failed: a proper "
        "request that is not answered rightly meanwhile or afterwards, a status of 500, a traceback in the log, a long "
        "answer, a connection held beyond its time limit, a request cut off by SIGTERM, workers left behind.",
        run,
        long=500,
        short=30,
    ),
)
