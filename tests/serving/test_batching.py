"""Concurrent requests are joined into batches, and none of them waits without end."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from adacsl.serving.batching import RequestBatcher


def doubled(inputs):
    return {"double": 2 * inputs[:, 0]}


def run(work, decide=doubled, calls=1, limit=10):
    """Run ``work(batcher)`` with a batcher of its own; an error after 20 seconds."""

    async def limited(pool):
        return await asyncio.wait_for(work(RequestBatcher(decide, pool, calls, limit)), 20)

    with ThreadPoolExecutor(2) as pool:
        return asyncio.run(limited(pool))


@pytest.mark.parametrize("calls", [1, 2])
def test_a_request_that_follows_an_answer_at_once_is_answered(calls):
    async def work(batcher):
        async def client(first):
            return [(await batcher.answer(np.full((1, 1), first + i)))["double"].item() for i in range(20)]

        return await asyncio.gather(*(client(100 * number) for number in range(5)))

    for number, answers in enumerate(run(work, calls=calls)):
        assert answers == [2 * (100 * number + i) for i in range(20)]


def test_a_pool_that_is_shut_down_is_an_error():
    async def work(batcher):
        batcher._pool.shutdown()
        await batcher.answer(np.zeros((1, 1)))

    with pytest.raises(RuntimeError, match="shutdown"):
        run(work)
