"""Carrying arrays in: checked once, never flattened, never copied to another library without need."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from adacsl import CostMatrix, find_threshold
from adacsl.base import floats
from adacsl.base.arrays import as_array, as_binary_labels, as_classes, as_scores, as_weights, move, widen

SCORES, LABELS = [0.1, 0.3, 0.6, 0.8], [0, 1, 0, 1]


@pytest.mark.parametrize("make", [list, tuple, np.array, pd.Series, pl.Series, torch.tensor], ids=lambda f: f.__name__)
def test_every_container_gives_one_answer(make):
    result = find_threshold(make(SCORES), make(LABELS), CostMatrix(fp=1, fn=8))
    assert (result.total_cost, result.high) == (1.0, pytest.approx(0.3))


def test_labels_and_costs_of_another_library_are_carried_over():
    costs = CostMatrix(fp=np.array([1.0, 2, 3, 4]), fn=np.array([5.0, 0, 1, 8]))
    weight = np.ones(4)
    weight.flags.writeable = False
    for scores in (np.array(SCORES), torch.tensor(SCORES, dtype=torch.float64)):
        for labels in (LABELS, np.array(LABELS), torch.tensor(LABELS)):
            result = find_threshold(scores, labels, costs, sample_weight=weight)
            assert result == (0.6, 0.0, 0.0, 0.6, 0.8)


def test_arrays_stay_where_they_are():
    array, tensor = np.array(SCORES), torch.tensor(SCORES)
    assert as_array(array, "x") is array
    assert as_scores(array) is array
    assert move(array, array) is array
    assert as_array(tensor, "x").data_ptr() == tensor.data_ptr()
    assert isinstance(move(array, tensor), torch.Tensor)
    assert isinstance(move(tensor, array), np.ndarray)
    scores = torch.tensor(SCORES, requires_grad=True)  # detached
    assert find_threshold(scores, torch.tensor(LABELS), CostMatrix(fp=1, fn=8)).total_cost == 1


def test_dtypes():
    assert as_scores([0, 1, 1]).dtype == np.float64
    assert widen(np.float16([0.5])).dtype == np.float32
    assert widen(torch.tensor([0.5], dtype=torch.bfloat16)).dtype == torch.float32
    assert as_classes(np.float32([0, 2]), 3, "y").dtype == np.int64
    assert as_weights(np.float16([0.5, 2]), np.zeros(2)).dtype == np.float64
    assert as_weights(None, np.zeros(2)) is None


def test_input_is_never_written_to():
    scores = np.array([0.6, -0.0, 0.3, 0.8], dtype=np.float32)
    before = scores.copy()
    find_threshold(scores, LABELS, CostMatrix(fp=1, fn=8))
    np.testing.assert_array_equal(scores, before)
    tensor = torch.tensor(before)
    find_threshold(tensor, torch.tensor(LABELS), CostMatrix(fp=1, fn=8))
    assert tensor.tolist() == before.tolist()


@pytest.mark.parametrize("labels", [[False, True], [0, 1], [0.0, 1.0], np.array([0, 1], dtype=np.uint8)])
def test_label_dtypes_become_the_same_mask(labels):
    assert as_binary_labels(labels, np.zeros(2)).tolist() == [False, True]


def test_objects_are_refused():
    dates = np.array(["2020-01-01"], dtype="datetime64[D]")
    for values, kind in (([None, 1.0], "object"), (dates, "datetime64"), ([1j], "complex")):
        with pytest.raises(TypeError, match=f"must be numbers, got an array of {kind}"):
            as_array(values, "scores")


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("value", [0.5, 1.0, 0.3, 1e-3, 2**-20, 1 / 3])
def test_numbers_beside_another_are_neighbours_of_the_type(name, value):
    dtype = getattr(torch, name)
    rounded = torch.tensor(value, dtype=torch.float64).to(dtype)
    assert floats.nearest(name, value) == rounded.item()
    below, above = floats.below(name, rounded.item()), floats.above(name, rounded.item())
    assert below < rounded.item() < above
    for neighbour in (below, above):
        assert torch.tensor(neighbour, dtype=torch.float64).to(dtype).item() == neighbour
        middle = (neighbour + rounded.item()) / 2
        assert torch.tensor(middle, dtype=torch.float64).to(dtype).item() in (neighbour, rounded.item())


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_below_zero_is_a_normal_negative_number(name):
    below = torch.tensor(floats.below(name, 0.0), dtype=torch.float64).to(getattr(torch, name))
    assert below < 0
    assert -below >= torch.finfo(getattr(torch, name)).smallest_normal or name == "float64"
