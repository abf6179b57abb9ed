"""Dynamic batching of concurrent requests."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np

from adacsl.datasets.columns import Columns


class RequestBatcher:
    """Queue that joins waiting requests into batches.

    While the model predicts one batch, requests queue for the next; no request waits for a batch to fill.

    Parameters
    ----------
    decide : callable
        Function from inputs (columns or pixels) to the columns of the answer; no sample depends on another.
    pool : Executor
        Executor of the calls.
    calls : int
        The most calls at a time.
    limit : int
        The most samples of a batch, unless a single request has more.
    """

    def __init__(self, decide: Callable[[Any], dict[str, Any]], pool: Executor, calls: int, limit: int) -> None:
        self._decide, self._pool, self._calls, self._limit = decide, pool, calls, limit
        self._waiting: deque[tuple[Any, asyncio.Future[dict[str, Any]]]] = deque()
        self._active = 0
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself holds none of them

    async def answer(self, inputs: Any) -> dict[str, Any]:
        """Return the columns of the answer for these samples."""
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting.append((inputs, future))
        if self._active < self._calls:
            self._active += 1
            task = asyncio.create_task(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await future

    async def _work(self) -> None:
        try:
            await self._predict_waiting()
        finally:  # at once: a request that came between the last look and a callback would wait for ever
            self._active -= 1

    async def _predict_waiting(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft()]
            size = batch[0][0].shape[0]
            while self._waiting and size + self._waiting[0][0].shape[0] <= self._limit:
                batch.append(self._waiting.popleft())
                size += batch[-1][0].shape[0]
            parts = [inputs for inputs, _ in batch]
            answers: list[dict[str, Any] | Exception]
            try:
                answers = await asyncio.get_running_loop().run_in_executor(self._pool, self._answers, parts)
            except RuntimeError as error:  # the pool is shut down
                answers = [error] * len(batch)
            for (_, future), answer in zip(batch, answers, strict=True):
                if future.done():  # the client has left
                    continue
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

    def _answers(self, parts: list[Any]) -> list[dict[str, Any] | Exception]:
        """Return the answer or the error of each part."""
        try:
            columns = self._decide(joined(parts))
        except Exception as error:
            if len(parts) == 1:
                return [error]
            return [answer for part in parts for answer in self._answers([part])]  # an error concerns a single request
        ends = np.cumsum([part.shape[0] for part in parts])
        bounds = zip([0, *ends[:-1]], ends, strict=True)
        return [{name: values[start:end] for name, values in columns.items()} for start, end in bounds]


def joined(parts: Sequence[Any]) -> Any:
    """Return columns, or pixels, one below the other."""
    return Columns.concatenate(parts) if isinstance(parts[0], Columns) else np.concatenate(parts)
