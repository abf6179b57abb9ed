"""Dynamic batching of concurrent requests."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np
import pandas as pd


def joined(inputs: Sequence[Any]) -> Any:
    """Return tables, or pixels, one below the other."""
    if len(inputs) == 1:
        return inputs[0]
    if isinstance(inputs[0], pd.DataFrame):
        return pd.concat(inputs, ignore_index=True)
    return np.concatenate(inputs)


class Together:
    """Hands rows of waiting requests to the model in as few calls as possible.

    While the model decides about some, others gather; those are next. Nobody is kept waiting for company.

    Parameters
    ----------
    decide : callable
        From inputs to what is answered column by column, row by row: one row does not depend on another.
    pool : Executor
        Where to decide.
    rounds : int
        How many calls at a time.
    limit : int
        So many rows are decided together at most, if one request has not more.
    """

    def __init__(self, decide: Callable[[Any], dict[str, Any]], pool: Executor, rounds: int, limit: int) -> None:
        self._decide, self._pool, self._rounds, self._limit = decide, pool, rounds, limit
        self._waiting: deque[tuple[Any, asyncio.Future[dict[str, Any]]]] = deque()
        self._running: set[asyncio.Task[None]] = set()

    async def decided(self, inputs: Any) -> dict[str, Any]:
        """Return the answer about these rows."""
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting.append((inputs, future))
        if len(self._running) < self._rounds:
            task = asyncio.create_task(self._work())
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return await future

    async def _work(self) -> None:
        while self._waiting:
            taken = [self._waiting.popleft()]
            size = len(taken[0][0])
            while self._waiting and size + len(self._waiting[0][0]) <= self._limit:
                taken.append(self._waiting.popleft())
                size += len(taken[-1][0])
            parts = [inputs for inputs, _ in taken]
            answers = await asyncio.get_running_loop().run_in_executor(self._pool, self._answers, parts)
            for (_, future), answer in zip(taken, answers, strict=True):
                if future.done():  # whoever asked is gone
                    continue
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

    def _answers(self, parts: list[Any]) -> list[dict[str, Any] | Exception]:
        """Return an answer, or what was raised, for each part."""
        try:
            columns = self._decide(joined(parts))
        except Exception as error:
            if len(parts) == 1:
                return [error]
            return [answer for part in parts for answer in self._answers([part])]  # the fault of one is not the others'
        ends = np.cumsum([len(part) for part in parts])
        cuts = zip([0, *ends[:-1]], ends, strict=True)
        return [{name: values[start:end] for name, values in columns.items()} for start, end in cuts]
