"""Five small tables that every checkout can make; the pinned scores are about them."""

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine

SEED = 0
RATIO = 6.0


def tables():
    """Return features and 0/1 labels by name."""
    cancer, digits, wine, diabetes = load_breast_cancer(), load_digits(), load_wine(), load_diabetes()
    rows = np.random.default_rng(0).permutation(len(digits.target))[:600]
    return {
        "cancer": (frame(cancer.data), (cancer.target == 0).astype(int)),
        "digits": (frame(digits.data[rows][:, ::3]), (digits.target[rows] == 8).astype(int)),
        "wine": (frame(wine.data), (wine.target == 2).astype(int)),
        "diabetes": (frame(diabetes.data), (diabetes.target > np.quantile(diabetes.target, 0.75)).astype(int)),
        "mixed": mixed(),
    }


def frame(values):
    return pd.DataFrame(values, columns=[f"x{i}" for i in range(values.shape[1])])


def mixed(n=500):
    """Return numbers with gaps, a category, a date, and labels that depend on all of them."""
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=n), rng.exponential(size=n)
    shop = rng.choice(["web", "city", "mail"], n, p=[0.6, 0.3, 0.1])
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 365, n), unit="D")
    z = 1.5 * a - b + 1.2 * (shop == "mail") + 0.002 * (day - pd.Timestamp("2024-07-01")).days - 0.8
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-z))).astype(int)
    table = pd.DataFrame({"a": np.where(rng.random(n) < 0.1, np.nan, a), "b": b, "shop": shop, "day": day})
    return table, y
