"""The HTTP application: routes, limits, and threads that predict."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from numpy.typing import NDArray
from pydantic_core import to_json
from starlette.requests import ClientDisconnect
from threadpoolctl import threadpool_limits

from adacsl import __version__
from adacsl.base.labels import label_name
from adacsl.decision.policy import REFER, Decisions, Policy, decide_rows, ordered_labels
from adacsl.estimators.classifier import CostClassifier
from adacsl.execution.threads import cores
from adacsl.fitting.rows import prices_of
from adacsl.neural.device import choose_device
from adacsl.serving.batching import Together
from adacsl.serving.errors import Refused
from adacsl.serving.metrics import Metrics
from adacsl.serving.rows import Form, Rows, read_arrow, read_inputs, read_json, write_arrow
from adacsl.serving.schema import ARROW, PICTURE, Contract, describe, probability_names, request_body, show

NUMBER = 28
"""Bytes of a number in JSON at most, with what separates it from its name and from the next."""


def decide(classifier: CostClassifier, contract: Contract, inputs: Any) -> Decisions:
    """Decide about rows as the model was trained to: with its policy, and the prices of these rows."""
    policy = classifier.policy or Policy()
    if contract.picture is not None:
        return decide_rows(classifier, classifier.decision_probabilities(inputs), None, policy)
    if isinstance(policy.time, str):
        policy = replace(policy, time=inputs[policy.time])
    costs = prices_of(classifier, inputs)
    features = inputs[[field.name for field in contract.fields[: contract.features]]]
    table = features if contract.named else features.to_numpy()
    return decide_rows(classifier, classifier.decision_probabilities(table, costs=costs), costs, policy)


def answer_columns(classifier: CostClassifier, found: Decisions) -> dict[str, NDArray[Any]]:
    """Return the answer column by column, under the names that ``adacsl predict`` writes."""
    labels = found.labels if found.costs.square else np.asarray(list(found.counts))[found.actions]
    proba = found.probabilities[None] if found.probabilities.ndim == 1 else found.probabilities.T
    named = dict(zip(probability_names(classifier), proba, strict=True))
    return {"decision": labels, **named, "expected_cost": found.expected}


def bytes_per_row(classifier: CostClassifier) -> int:
    """Return an upper bound of the bytes of one row of an answer in JSON, the larger of its two forms."""
    names = ["decision", *probability_names(classifier), "expected_cost"]
    added = () if classifier.policy is None or classifier.policy.actions is None else classifier.policy.actions.actions
    labels = [label_name(label) for label in (*ordered_labels(classifier), *(added or ()), REFER)]
    return sum(len(to_json(name)) + NUMBER for name in names) + max(len(to_json(label)) for label in labels)


def write_json(columns: dict[str, NDArray[Any]], notes: list[str], form: Form) -> bytes:
    """Return the answer in the form of the question: records or columns."""
    lists = {name: values.tolist() for name, values in columns.items()}
    rows = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)] if form == "rows" else []
    return to_json({form: rows if form == "rows" else lists, "notes": notes}, inf_nan_mode="null")


WAITING = 128
"""Requests that may wait for their decisions at a time, once they have been received; others get a 503."""
BODY_SECONDS = 30.0
"""Time limit for receiving the body of a request."""
BODIES = 16
"""How many bodies of the largest size may be held at a time, all requests together."""
SMALL = 16_384
"""Bodies of fewer bytes are parsed at once, as handing them to a thread takes longer, and are always received."""
CLIENT_LEFT = 499
"""Status under which a request is counted whose client has closed the connection before the body was complete."""
ROUNDS = 2
"""So many calls of the model at a time: with more, fewer requests are decided together."""


@dataclass(frozen=True)
class Bounds:
    """Limits of one request: rows, bytes of its body, and bytes of its answer, which limit the rows as well."""

    rows: int = 10_000
    body: int = 32 * 2**20
    answer: int = 64 * 2**20


class Desk:
    """A model with a few threads that decide, so that the server goes on listening.

    Each thread has one core: on few rows several threads wait for each other longer than they work. On a GPU there is
    one, as a net that predicts is moved there and back. Without a policy, requests that wait are decided together; a
    policy looks at the rows of one request.
    """

    def __init__(self, classifier: CostClassifier, bounds: Bounds, *, device: str = "auto", threads: int = 1) -> None:
        fitting = max(1, bounds.answer // bytes_per_row(classifier))
        self.classifier, self.bounds = classifier, replace(bounds, rows=min(bounds.rows, fitting))
        self.contract, self.metrics, self.held, self.held_bytes = Contract.of(classifier), Metrics(), 0, 0
        threads = threads if choose_device(device, warn=False) == "cpu" else 1
        self.pool = ThreadPoolExecutor(threads, "decide", initializer=_one_thread)
        self.together = Together(self.columns, self.pool, min(threads, ROUNDS), self.bounds.rows)

    @property
    def busy(self) -> bool:
        """Whether another request would have to wait too long."""
        return self.held >= WAITING

    async def answer(self, request: Request) -> Response:
        """Answer one request for decisions, and count it."""
        started, status = time.perf_counter(), 500
        try:
            response = await self._answer(request)
            status = response.status_code
        except Refused as refused:
            status = refused.status
            raise
        except ClientDisconnect:
            status = CLIENT_LEFT
            return Response(status_code=status)  # nobody reads it
        except asyncio.CancelledError:
            status = 503
            raise
        finally:
            self.metrics.answered(status, time.perf_counter() - started)
        return response

    async def _answer(self, request: Request) -> Response:
        self._check_waiting()
        async with self._received(request) as body:
            self._check_waiting()  # others may have been received meanwhile
            self.held += 1
            try:
                kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
                content = await self._decided(body, kind)
            finally:
                self.held -= 1
        return Response(content, media_type=ARROW if kind == ARROW else "application/json")

    def _check_waiting(self) -> None:
        if self.busy:
            raise Refused(f"{WAITING} requests are waiting already: come again in a second", 503)

    @asynccontextmanager
    async def _received(self, request: Request) -> AsyncIterator[bytes]:
        """Receive the body of a request within the limits of time and size; its bytes count as held until the end."""
        body, large = bytearray(), 0
        try:
            try:
                async with asyncio.timeout(BODY_SECONDS):
                    async for part in checked_length(request, self.bounds.body):
                        body += part
                        grown = max(0, len(body) - SMALL) - large
                        large, self.held_bytes = large + grown, self.held_bytes + grown
                        if large and self.held_bytes > BODIES * self.bounds.body:
                            raise Refused("too many large bodies are being received: come again in a second", 503)
            except TimeoutError:
                raise Refused(_too_slow(request, len(body)), 408) from None
            yield bytes(body)
        finally:
            self.held_bytes -= large

    async def _decided(self, body: bytes, kind: str) -> bytes:
        loop = asyncio.get_running_loop()
        if self.classifier.policy is not None:
            return await loop.run_in_executor(self.pool, self.decided, body, kind)
        small = len(body) < SMALL
        rows = self._read(body, kind) if small else await loop.run_in_executor(self.pool, self._read, body, kind)
        columns = await self.together.decided(rows.inputs)
        written = columns, list[str](), rows.form, kind
        return _write(*written) if small else await loop.run_in_executor(self.pool, _write, *written)

    def decided(self, body: bytes, kind: str) -> bytes:
        """Return the answer to a body of some content type, about its rows alone."""
        rows = self._read(body, kind)
        found = self._decide(rows.inputs)
        return _write(answer_columns(self.classifier, found), list(found.notes), rows.form, kind)

    def columns(self, inputs: Any) -> dict[str, Any]:
        """Return what is answered about rows of any number of requests."""
        return answer_columns(self.classifier, self._decide(inputs))

    def _decide(self, inputs: Any) -> Decisions:
        try:
            found = decide(self.classifier, self.contract, inputs)
        except ValueError as error:
            raise Refused(" ".join(str(error).split())) from None
        self.metrics.decided(found)
        return found

    def _read(self, body: bytes, kind: str) -> Rows:
        if kind == ARROW:
            return read_arrow(body, self.contract, self.bounds.rows)
        if kind.startswith("image/") and self.contract.picture is not None:
            return Rows(read_inputs(self.contract, {PICTURE: [body]}), "rows")
        if kind == "application/json" or kind.endswith("+json"):
            return read_json(body, self.contract, self.bounds.rows)
        raise Refused(f"the content type {kind} is not known here: send application/json or {ARROW}", 415)


def _write(columns: dict[str, Any], notes: list[str], form: Form, kind: str) -> bytes:
    return write_arrow(columns, notes) if kind == ARROW else write_json(columns, notes, form)


def _one_thread() -> None:
    threadpool_limits(1)
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)


async def checked_length(request: Request, limit: int) -> AsyncIterator[bytes]:
    """Yield the parts of a body; one that is too large is refused at its head, or as soon as it is."""
    too_large = Refused(f"the body has more than {limit:,} bytes: send the rows in parts", 413)
    size = request.headers.get("content-length", "")
    if size.isdigit() and (len(size) > len(str(limit)) + 1 or int(size) > limit):
        raise too_large
    received = 0
    async for part in request.stream():
        received += len(part)
        if received > limit:
            raise too_large
        yield part


def _too_slow(request: Request, size: int) -> str:
    length = request.headers.get("content-length", "")
    whole = f" of {int(length):,}" if length.isdigit() else ""
    seconds = f"{BODY_SECONDS:g} second{'' if BODY_SECONDS == 1 else 's'}"
    return f"the body was not there after {seconds}: it has {size:,}{whole} bytes; send fewer rows at a time"


def make_app(
    classifier: CostClassifier, *, bounds: Bounds | None = None, device: str = "auto", threads: int | None = None
) -> FastAPI:
    """Return an ASGI application that serves a fitted classifier.

    Parameters
    ----------
    classifier : CostClassifier
        As ``adacsl.load`` returns it.
    bounds : Bounds, optional
        What one request may ask for.
    device : str
        Where it predicts.
    threads : int, optional
        How many requests are decided at the same time; default: one for each core.
    """
    desk = Desk(classifier, bounds or Bounds(), device=device, threads=threads or cores())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        desk.pool.shutdown()

    app = FastAPI(title="adacsl", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.add_exception_handler(Refused, _refuse)

    @app.post("/predict", openapi_extra=request_body(desk.contract, desk.bounds.rows), responses=ANSWERS)
    async def predict(request: Request) -> Response:
        """Decide about rows: what to do, with which probability of the positive class, at which expected cost."""
        return await desk.answer(request)

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Tell that the process lives."""
        return {"status": "alive"}

    @app.get("/ready", responses={503: {"description": "too many requests are waiting"}})
    async def ready() -> JSONResponse:
        """Tell whether another request would be answered soon."""
        return JSONResponse({"status": "busy" if desk.busy else "ready"}, 503 if desk.busy else 200)

    @app.get("/model")
    async def model() -> dict[str, Any]:
        """Tell what is served: classes, costs, policy, the columns of a row, and limits."""
        limits = {"rows": desk.bounds.rows, "bytes": desk.bounds.body}
        return describe(classifier, desk.contract) | {"limits": limits}

    @app.get("/docs", response_class=HTMLResponse)
    async def docs() -> HTMLResponse:
        """Describe it for people; nothing is loaded from elsewhere."""
        return HTMLResponse(show(describe(classifier, desk.contract), desk.contract, desk.bounds.rows))

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> PlainTextResponse:
        """Return what was counted, for Prometheus."""
        return PlainTextResponse(desk.metrics.text())

    return app


ANSWERS: dict[int | str, dict[str, Any]] = {
    408: {"description": "the body did not arrive in time"},
    413: {"description": "the body is too large"},
    415: {"description": "neither JSON nor Arrow"},
    422: {"description": "rows that cannot be decided; `errors` names row (from 0), column and what was expected"},
    503: {"description": "too many requests are waiting, or the server is stopping"},
}


async def _refuse(_: Request, refused: Exception) -> JSONResponse:
    assert isinstance(refused, Refused)  # noqa: S101  for mypy: it is registered for nothing else
    headers = {503: {"retry-after": "1"}, 408: {"connection": "close"}}.get(refused.status)
    return JSONResponse(refused.document, refused.status, headers)
