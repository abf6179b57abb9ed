"""Thresholds of Ray's data sets: those of the exact search over all rows."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from adacsl import CostHistogram, CostMatrix, find_threshold

pytest.importorskip("ray", reason="needs adacsl[ray]")

import ray

from adacsl.integrations import ray as integrations_ray

pytestmark = [
    pytest.mark.weekly,
    # Ray's own: pipes and log files of its processes that it leaves to the garbage collector
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
COSTS = CostMatrix(fp=1, fn=5)


@pytest.fixture(scope="module")
def cluster():
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def columns():
    rng = np.random.default_rng(1)
    scores = rng.random(50_000, dtype=np.float32) ** 2
    labels = (rng.random(50_000) < scores).astype(int)
    return {"p": scores, "fraud": labels, "amount": rng.lognormal(1, 1, 50_000)}


def own(rows):
    return CostMatrix(fp=1, fn=rows["amount"])


@pytest.mark.parametrize("costs", [COSTS, own], ids=["class-wide", "rows"])
def test_the_threshold_is_that_of_all_rows(cluster, columns, costs, tmp_path):
    pd.DataFrame(columns).to_parquet(tmp_path / "all.parquet", row_group_size=5000)
    dataset = ray.data.read_parquet(str(tmp_path)).repartition(7)
    result = integrations_ray.threshold(dataset, costs, score="p", label="fraud", batch_rows=9000)
    known = costs if isinstance(costs, CostMatrix) else own(columns)
    assert_allclose(result, find_threshold(columns["p"], columns["fraud"], known), rtol=1e-12)


def test_the_histogram_is_that_of_all_rows(cluster, columns):
    frame = pd.DataFrame(columns)
    dataset = ray.data.from_pandas([frame[:30_000], frame[:0], frame[30_000:]])
    result = integrations_ray.histogram(dataset, score="p", label="fraud", batch_rows=4000)
    known = CostHistogram()
    known.update(columns["p"], columns["fraud"])
    assert (result.rows, result.kind) == (known.rows, "float32")
    assert (result.positives == known.positives).all()
    assert (result.negatives == known.negatives).all()
