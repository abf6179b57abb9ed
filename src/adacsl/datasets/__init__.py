"""Data sets: tables and images with their labels, groups and prices."""

from adacsl.datasets.builtin import DATASETS, DataSet, data_folder, describe, list_datasets
from adacsl.datasets.errors import DataError, DataWarning
from adacsl.datasets.loading import load_dataset, load_task
from adacsl.datasets.readers.formats import count_rows, read_table, stream_table
from adacsl.datasets.task import Task

__all__ = [
    "DATASETS",
    "DataError",
    "DataSet",
    "DataWarning",
    "Task",
    "count_rows",
    "data_folder",
    "describe",
    "list_datasets",
    "load_dataset",
    "load_task",
    "read_table",
    "stream_table",
]
