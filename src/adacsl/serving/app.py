"""HTTP application: routes, limits of requests, and prediction threads."""

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
from adacsl.base.extras import resolve
from adacsl.base.labels import label_name
from adacsl.decision.policy import REFER, Decisions, ordered_labels
from adacsl.estimators.classifier import CostSensitiveClassifier
from adacsl.execution.threads import cores
from adacsl.serving.batching import RequestBatcher
from adacsl.serving.errors import RequestError
from adacsl.serving.metrics import Metrics
from adacsl.serving.rows import Orientation, Samples, read_arrow, read_json, read_samples, write_arrow
from adacsl.serving.schema import ARROW, IMAGE, InputSchema, describe, probability_names, render_page, request_body

NUMBER = 28
"""The most bytes of a number in JSON, with separators."""


def answer_columns(classifier: CostSensitiveClassifier, result: Decisions) -> dict[str, NDArray[Any]]:
    """Return the columns of an answer, with the names that ``adacsl predict`` writes."""
    labels = result.labels if result.costs.square else np.asarray(list(result.counts))[result.actions]
    proba = result.probabilities[None] if result.probabilities.ndim == 1 else result.probabilities.T
    named = dict(zip(probability_names(classifier), proba, strict=True))
    return {"decision": labels, **named, "expected_cost": result.expected}


def bytes_per_row(classifier: CostSensitiveClassifier) -> int:
    """Return an upper bound of the bytes of one row of an answer in JSON, the larger of its two forms."""
    names = ["decision", *probability_names(classifier), "expected_cost"]
    added = () if classifier.policy is None or classifier.policy.actions is None else classifier.policy.actions.actions
    labels = [label_name(label) for label in (*ordered_labels(classifier), *(added or ()), REFER)]
    return sum(len(to_json(name)) + NUMBER for name in names) + max(len(to_json(label)) for label in labels)


def write_json(columns: dict[str, NDArray[Any]], notes: list[str], orientation: Orientation) -> bytes:
    """Return the answer by rows or by columns, as the request."""
    lists = {name: values.tolist() for name, values in columns.items()}
    if orientation == "columns":
        return to_json({"columns": lists, "notes": notes}, inf_nan_mode="null")
    rows = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
    return to_json({"rows": rows, "notes": notes}, inf_nan_mode="null")


WAITING = 128
"""The most requests that wait for their decisions at a time; further ones get a 503."""
BODY_SECONDS = 30.0
"""Time limit for receiving the body of a request."""
BODIES = 16
"""The most bodies of the largest size that are held at a time, over all requests."""
SMALL = 16_384
"""Smaller bodies (in bytes) are parsed at once, as handing them to a thread takes longer, and always received."""
CLIENT_LEFT = 499
"""The status that is counted where the client has closed the connection before the body was complete."""
CALLS = 2
"""The most calls of the model at a time: with more, batches get smaller."""


@dataclass(frozen=True)
class RequestLimits:
    """Limits of one request.

    Parameters
    ----------
    rows : int
        The most rows.
    body : int
        The most bytes of the body.
    answer : int
        The most bytes of the answer, which limits the rows as well.
    """

    rows: int = 10_000
    body: int = 32 * 2**20
    answer: int = 64 * 2**20


class PredictionService:
    """A model and the threads that predict with it, while the server goes on listening.

    Each thread uses one core: on few samples several threads wait for each other longer than they work. On a GPU there
    is one thread, as a neural network is moved there and back for a prediction. Without a policy, concurrent requests
    are batched; a policy applies to the samples of one request.

    Parameters
    ----------
    classifier : CostSensitiveClassifier
        Fitted.
    limits : RequestLimits
        Limits of one request.
    device : str, default "auto"
        Where neural networks predict.
    threads : int, default 1
        The number of threads.
    """

    def __init__(
        self, classifier: CostSensitiveClassifier, limits: RequestLimits, *, device: str = "auto", threads: int = 1
    ) -> None:
        fitting = max(1, limits.answer // bytes_per_row(classifier))
        self.classifier, self.limits = classifier, replace(limits, rows=min(limits.rows, fitting))
        self.schema = InputSchema.of(classifier)
        self.envelope = self.schema.envelope(self.limits.rows)
        self.metrics, self.held, self.held_bytes = Metrics(), 0, 0
        threads = 1 if _on_gpu(device) else threads
        self.pool = ThreadPoolExecutor(threads, "decide", initializer=_one_thread)
        self.batcher = RequestBatcher(self.answer_jointly, self.pool, min(threads, CALLS), self.limits.rows)

    @property
    def busy(self) -> bool:
        """Whether another request would have to wait too long."""
        return self.held >= WAITING

    async def respond(self, request: Request) -> Response:
        """Answer one request for predictions, and count it."""
        started, status = time.perf_counter(), 500
        try:
            response = await self._respond(request)
            status = response.status_code
        except RequestError as error:
            status = error.status
            raise
        except ClientDisconnect:
            status = CLIENT_LEFT
            return Response(status_code=status)  # no client is left to read it
        except asyncio.CancelledError:
            status = 503
            raise
        finally:
            self.metrics.answered(status, time.perf_counter() - started)
        return response

    async def _respond(self, request: Request) -> Response:
        self._check_waiting()
        async with self._received(request) as body:
            self._check_waiting()  # others may have been received meanwhile
            self.held += 1
            try:
                kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
                content = await self._answer(body, kind)
            finally:
                self.held -= 1
        return Response(content, media_type=ARROW if kind == ARROW else "application/json")

    def _check_waiting(self) -> None:
        if self.busy:
            raise RequestError(f"{WAITING} requests are waiting already: retry in a second", 503)

    @asynccontextmanager
    async def _received(self, request: Request) -> AsyncIterator[bytes]:
        """Receive the body of a request within the limits of time and size; its bytes count as held until the end."""
        body, large = bytearray(), 0
        try:
            try:
                async with asyncio.timeout(BODY_SECONDS):
                    async for part in checked_length(request, self.limits.body):
                        body += part
                        grown = max(0, len(body) - SMALL) - large
                        large, self.held_bytes = large + grown, self.held_bytes + grown
                        if large and self.held_bytes > BODIES * self.limits.body:
                            raise RequestError("too many large bodies are being received: retry in a second", 503)
            except TimeoutError:
                raise RequestError(_too_slow(request, len(body)), 408) from None
            yield bytes(body)
        finally:
            self.held_bytes -= large

    async def _answer(self, body: bytes, kind: str) -> bytes:
        loop = asyncio.get_running_loop()
        if self.classifier.policy is not None:
            return await loop.run_in_executor(self.pool, self.answer_alone, body, kind)
        small = len(body) < SMALL
        samples = self._read(body, kind) if small else await loop.run_in_executor(self.pool, self._read, body, kind)
        columns = await self.batcher.answer(samples.inputs)
        written = columns, list[str](), samples.orientation, kind
        return _write(*written) if small else await loop.run_in_executor(self.pool, _write, *written)

    def answer_alone(self, body: bytes, kind: str) -> bytes:
        """Return the answer to one body, predicted separately from other requests."""
        samples = self._read(body, kind)
        result = self._decisions(samples.inputs)
        return _write(answer_columns(self.classifier, result), list(result.notes), samples.orientation, kind)

    def answer_jointly(self, inputs: Any) -> dict[str, Any]:
        """Return the columns of the answer for the samples of any number of requests."""
        return answer_columns(self.classifier, self._decisions(inputs))

    def _decisions(self, inputs: Any) -> Decisions:
        try:
            result = self.classifier.decisions(inputs)
        except ValueError as error:
            raise RequestError(" ".join(str(error).split())) from None
        self.metrics.decided(result)
        return result

    def _read(self, body: bytes, kind: str) -> Samples:
        if kind == ARROW:
            return read_arrow(body, self.schema, self.limits.rows)
        if kind.startswith("image/") and self.schema.image is not None:
            return Samples(read_samples(self.schema, {IMAGE: [body]}), "rows")
        if kind == "application/json" or kind.endswith("+json"):
            return read_json(body, self.schema, self.envelope)
        raise RequestError(f"the content type {kind} is not supported: send application/json or {ARROW}", 415)


def _write(columns: dict[str, Any], notes: list[str], orientation: Orientation, kind: str) -> bytes:
    return write_arrow(columns, notes) if kind == ARROW else write_json(columns, notes, orientation)


def _on_gpu(device: str) -> bool:
    """Return whether neural networks predict on a GPU; without any, torch has not been imported."""
    if "torch" not in sys.modules:
        return False
    return bool(resolve("adacsl.neural.device:choose_device")(device, warn=False) != "cpu")


def _one_thread() -> None:
    threadpool_limits(1)
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)


async def checked_length(request: Request, limit: int) -> AsyncIterator[bytes]:
    """Yield the parts of a body; one that is too large is refused by its declared length, or once it is too large."""
    too_large = RequestError(f"the body has more than {limit:,} bytes: send the rows in several requests", 413)
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
    return f"the body was incomplete after {seconds}: {size:,}{whole} bytes received; send fewer rows at a time"


def make_app(
    classifier: CostSensitiveClassifier,
    *,
    limits: RequestLimits | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> FastAPI:
    """Return an ASGI application that serves a fitted classifier.

    Parameters
    ----------
    classifier : CostSensitiveClassifier
        Fitted, or loaded by :func:`adacsl.load`.
    limits : RequestLimits, optional
        Limits of one request.
    device : str, default "auto"
        Where neural networks predict: auto, cpu, cuda, cuda:1 or mps.
    threads : int, optional
        How many batches are predicted at the same time; default: one for each core.

    Returns
    -------
    FastAPI

    Raises
    ------
    ValueError
        Where the model was fitted with costs that a request cannot give.
    """
    service = PredictionService(classifier, limits or RequestLimits(), device=device, threads=threads or cores())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.pool.shutdown()

    app = FastAPI(title="adacsl", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.add_exception_handler(RequestError, _error_response)

    @app.post("/predict", openapi_extra=request_body(service.schema, service.limits.rows), responses=ANSWERS)
    async def predict(request: Request) -> Response:
        """Return for each row the decision, the probability of the positive class, and the expected cost."""
        return await service.respond(request)

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Return whether the process is alive."""
        return {"status": "alive"}

    @app.get("/ready", responses={503: {"description": "too many requests are waiting"}})
    async def ready() -> JSONResponse:
        """Return whether another request would be accepted."""
        return JSONResponse({"status": "busy" if service.busy else "ready"}, 503 if service.busy else 200)

    @app.get("/model")
    async def model() -> dict[str, Any]:
        """Return the classes, costs, policy, columns and limits of the served model."""
        limits = {"rows": service.limits.rows, "bytes": service.limits.body}
        return describe(classifier, service.schema) | {"limits": limits}

    @app.get("/docs", response_class=HTMLResponse)
    async def docs() -> HTMLResponse:
        """Return an HTML page about the model; it loads nothing from elsewhere."""
        return HTMLResponse(render_page(describe(classifier, service.schema), service.schema, service.limits.rows))

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> PlainTextResponse:
        """Return the metrics in Prometheus's format."""
        return PlainTextResponse(service.metrics.text())

    return app


ANSWERS: dict[int | str, dict[str, Any]] = {
    408: {"description": "the body did not arrive in time"},
    413: {"description": "the body is too large"},
    415: {"description": "neither JSON nor Arrow"},
    422: {"description": "invalid rows; `errors` names row (from 0), column and what was expected"},
    503: {"description": "too many requests are waiting, or the server is stopping"},
}


async def _error_response(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestError)  # noqa: S101  for mypy: registered for this class only
    headers = {503: {"retry-after": "1"}, 408: {"connection": "close"}}.get(error.status)
    return JSONResponse(error.document, error.status, headers)
