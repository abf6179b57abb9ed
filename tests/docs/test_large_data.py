"""The SQL of the page on large data counts what CostHistogram counts."""

import re
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

from adacsl import CostHistogram

PAGE = Path(__file__).resolve().parents[2] / "docs/guide/scale/large-data.md"


def test_the_query_for_spark_counts_the_same_buckets():
    (query,) = re.findall(r"^```sql\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    rng = np.random.default_rng(0)
    drawn = np.concatenate(([0.0, 1.0, 1e-45, 0.5, np.nextafter(0.5, 0)], rng.random(5000) ** 5))
    scores = pd.DataFrame({"score": drawn, "label": rng.integers(0, 2, len(drawn))})  # what the query reads
    result = duckdb.sql(query).fetchnumpy()
    counted = CostHistogram.from_counts(result["bucket"], result["label"], result["n"])
    known = CostHistogram()
    known.update(drawn, scores["label"].to_numpy())
    assert (counted.positives == known.positives).all()
    assert (counted.negatives == known.negatives).all()
