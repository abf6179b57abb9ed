"""The figures printed in the paper (Volk and Singer, arXiv 2111.07382), typed from its tables."""

from __future__ import annotations

from typing import NamedTuple

DATASETS = ("HAM10K", "IDC", "RFFD", "PV-D")
FACTORS = (1, 3, 5)
"""k: a false negative costs k times the inverse share of positives; the paper writes rho = k times the imbalance."""
METHODS = ("net", "ta", "net-smote", "net-weighted", "adacsl")
TITLES = {
    "net": "CNN",
    "ta": "CNN w/ TA",
    "net-smote": "CNN w/ SMOTE",
    "net-weighted": "CNN w/ WCE",
    "adacsl": "CNN w/ AdaCSL",
}

TEST_ROWS = {"HAM10K": 2000, "PV-D": 12925, "RFFD": 288}
"""Calling everything positive costs exactly as much as there are test rows; of IDC the paper gives no such figure."""


SPLIT_TITLES = {"random": "random split", "group": "split by group", "patient": "one patient left out"}
_PARTIAL = {"IDC": "3 % of the data, not a reproduction"}


def title_of(dataset: str) -> str:
    """Return the name of a data set for tables and figures, with a warning where only a part of it was at hand."""
    return f"{dataset} ({_PARTIAL[dataset]})" if dataset in _PARTIAL else dataset


class Printed(NamedTuple):
    """An entry of Table 2: total cost and accuracy (in per cent) on the test set."""

    cost: float
    accuracy: float


_TABLE_2 = """
HAM10K 1  1001 72.01   2000 11.83   1132 84.84    824 74.19    658 82.57
HAM10K 3  1895 83.25   2000 11.83   2198 85.98   1090 65.75    959 69.25
HAM10K 5  6012 88.71   2000 11.83   4649 86.33   1400 57.80   1345 60.25
IDC    1  1296 86.66   1482 86.12   1263 85.85   1249 84.84   1225 83.64
IDC    3  2712 85.36   3492 86.00   2557 83.93   1990 74.92   1925 78.23
IDC    5  4741 86.25   5250 86.11   3910 84.33   2481 66.79   2318 75.18
RFFD   1   214 62.85      -     -      -     -      -     -    210 63.54
RFFD   3   322 59.38    492 60.07      -     -    282 51.73    274 57.29
RFFD   5   540 65.97    538 62.15      -     -    318 51.73    286 50.35
PV-D   1   406 98.40  12925 32.34    428 98.40    390 98.22    170 99.50
PV-D   3  1319 98.35  12925 32.34   1098 98.41   1134 94.26    279 98.82
PV-D   5  1779 97.27  12925 32.34   1224 98.42   1835 94.12    585 98.03
"""


def _read(text: str) -> dict[tuple[str, int], dict[str, Printed]]:
    table = {}
    for line in text.strip().splitlines():
        name, factor, *numbers = line.split()
        pairs = zip(METHODS, numbers[::2], numbers[1::2], strict=True)
        table[name, int(factor)] = {m: Printed(float(cost), float(acc)) for m, cost, acc in pairs if cost != "-"}
    return table


TABLE_2 = _read(_TABLE_2)
"""Table 2 by data set and k; methods that the paper left out are absent."""


def normalized(dataset: str, k: int, method: str) -> float | None:
    """Return a printed cost divided by the number of test rows: 1 is calling everything positive.

    Examples
    --------
    >>> normalized("HAM10K", 1, "adacsl")
    0.329
    """
    printed, rows = TABLE_2.get((dataset, k), {}).get(method), TEST_ROWS.get(dataset)
    return None if printed is None or rows is None else printed.cost / rows


class Subgroup(NamedTuple):
    """A line of Table 1 (wolves and dogs): accuracies in per cent, of 400 validation images."""

    number: int
    size: int
    accuracy: float  # after epoch 1
    cost: float
    train_accuracy_without: float  # after epoch 2, without and with AdaCSL
    accuracy_without: float
    train_ce_without: float
    ce_without: float
    cost_without: float
    train_accuracy_with: float
    accuracy_with: float
    train_ce_with: float
    ce_with: float
    cost_with: float


TABLE_1 = (
    Subgroup(2, 3, 100.0, 0, 100.0, 100.0, 0.104, 0.086, 0, 100.0, 100.0, 0.093, 0.076, 0),
    Subgroup(3, 6, 100.0, 0, 98.4, 100.0, 0.168, 0.188, 0, 98.4, 100.0, 0.151, 0.167, 0),
    Subgroup(4, 32, 93.8, 4, 90.3, 96.9, 0.330, 0.279, 2, 90.3, 93.8, 0.314, 0.258, 4),
    # the paper prints 36 for the training cross-entropy with AdaCSL, a misprint for 0.36
    Subgroup(5, 78, 70.5, 46, 86.4, 92.3, 0.445, 0.389, 12, 85.9, 93.6, 0.36, 0.374, 10),
    Subgroup(6, 120, 60.0, 96, 94.1, 93.3, 0.458, 0.477, 16, 94.1, 93.3, 0.451, 0.470, 16),
    Subgroup(7, 100, 65.0, 70, 90.5, 89.0, 0.460, 0.461, 22, 92.5, 91.0, 0.452, 0.452, 18),
    Subgroup(8, 55, 67.3, 36, 81.6, 76.4, 0.467, 0.487, 26, 82.9, 80.0, 0.452, 0.475, 22),
    Subgroup(9, 6, 16.7, 10, 71.4, 16.7, 0.471, 0.876, 10, 71.4, 16.7, 0.452, 0.815, 10),
)
"""Table 1: subgroup m holds the images with a probability of wolf in [0.1 m - 0.1, 0.1 m) after epoch 1."""
