"""Numbers and figures by epoch."""

import numpy as np
import pandas as pd
import pytest

from adacsl.report.sections import training


def test_epoch_table_means_over_seeds_and_folds():
    steps = [{"epoch": 1, "fold": f, "lambda": 1.0 + f, "threshold": 0.5, "val_cost": 2.0 * f} for f in (0, 1)]
    table = training.epoch_table(
        {("a", 0): steps, ("a", 1): [{"epoch": 1, "fold": 0, "lambda": 6.0, "val_cost": None}]}
    )
    row = table.iloc[0]
    assert row[["n", "lambda", "lambda_low", "lambda_high"]].tolist() == [3, 3.0, 1.0, 6.0]
    assert row[["val_cost", "val_cost_high"]].tolist() == [1.0, 2.0]
    assert "train_cost" not in table.columns
    assert training.epoch_table({}).empty
    assert training.epoch_table({("a", 0): [{"epoch": 1}]}).empty


def test_optimism_table_is_test_minus_validation():
    results = pd.DataFrame(
        {"method": ["a", "a", "b", "c"], "cost": [2.0, 4.0, 1.0, 9.0], "validation_cost": [1.0, 3.0, 1.5, np.nan]}
    )
    table = training.optimism_table(results)
    assert table["method"].tolist() == ["b", "a"]
    assert table["gap"].tolist() == [-0.5, 1.0]
    assert table["gap_share"].tolist() == pytest.approx([-0.5, 1 / 3])
    assert training.optimism_table(results.drop(columns="validation_cost")).empty
    assert training.optimism_table(results.iloc[3:]).empty


def test_lambda_figure_without_adaptive_methods_is_empty():
    epochs = training.epoch_table({("net", 0): [{"epoch": 1, "val_cost": 1.0}]})
    assert not training.lambda_figure(epochs).data
    assert len(training.history_figure(epochs).data) == 2  # the line and its band


def test_lambdas_are_geometric_means_of_one_method():
    steps = [{"epoch": 1, "lambdas": [4.0, 0.25, 1.0]}, {"round": 1, "lambdas": [9.0, 9.0, 9.0]}]
    other = [{"epoch": 1, "lambdas": [1.0, 1.0, 1.0]}]
    histories = {("plain", 0): [{"epoch": 1, "val_cost": 1.0}], ("a", 0): steps, ("a", 1): other, ("b", 0): other}
    frame = training.class_lambdas(histories, ["x", "y", "z"])
    assert frame.to_dict("list") == {
        "method": ["a"] * 3, "class": ["x", "y", "z"], "epoch": [1] * 3, "lambda": pytest.approx([2.0, 0.5, 1.0])
    }  # fmt: skip
    assert training.class_lambdas(histories, ["x", "y", "z"], "b")["lambda"].tolist() == [1.0] * 3
    empty = training.class_lambdas({}, ["x"])
    assert empty.empty
    with pytest.raises(ValueError, match="no method adapted itself"):
        training.class_lambda_figure(empty)


def test_colours_are_for_the_classes_that_moved_most():
    values = {"a": 8.0, "b": 0.1, "c": 1.0, "d": 2.0, "e": 1.5, "f": 1.1}
    rows = [("m", name, epoch, value**epoch) for name, value in values.items() for epoch in (0, 1)]
    figure = training.class_lambda_figure(pd.DataFrame(rows, columns=["method", "class", "epoch", "lambda"]))
    assert {line.name for line in figure.data if line.showlegend} == {"a", "b", "d", "e"}
