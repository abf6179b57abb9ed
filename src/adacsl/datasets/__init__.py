"""Data sets: tables and images with their labels, groups and costs."""

from typing import TYPE_CHECKING

from adacsl.base.extras import lazy_exports

if TYPE_CHECKING:
    from adacsl.datasets.builtin import DATASETS, DataSet, data_folder, describe, list_datasets
    from adacsl.datasets.checks import check
    from adacsl.datasets.errors import DataError, DataWarning
    from adacsl.datasets.findings import Checks, Finding
    from adacsl.datasets.loading import load_dataset, load_task
    from adacsl.datasets.readers.formats import count_rows, read_table, stream_table
    from adacsl.datasets.task import Task

_PLACES = {
    "Checks": "adacsl.datasets.findings",
    "DATASETS": "adacsl.datasets.builtin",
    "DataError": "adacsl.datasets.errors",
    "DataSet": "adacsl.datasets.builtin",
    "DataWarning": "adacsl.datasets.errors",
    "Finding": "adacsl.datasets.findings",
    "Task": "adacsl.datasets.task",
    "check": "adacsl.datasets.checks",
    "count_rows": "adacsl.datasets.readers.formats",
    "data_folder": "adacsl.datasets.builtin",
    "describe": "adacsl.datasets.builtin",
    "list_datasets": "adacsl.datasets.builtin",
    "load_dataset": "adacsl.datasets.loading",
    "load_task": "adacsl.datasets.loading",
    "read_table": "adacsl.datasets.readers.formats",
    "stream_table": "adacsl.datasets.readers.formats",
}

__all__ = [
    "DATASETS",
    "Checks",
    "DataError",
    "DataSet",
    "DataWarning",
    "Finding",
    "Task",
    "check",
    "count_rows",
    "data_folder",
    "describe",
    "list_datasets",
    "load_dataset",
    "load_task",
    "read_table",
    "stream_table",
]

__getattr__, __dir__ = lazy_exports(__name__, _PLACES, "train")
