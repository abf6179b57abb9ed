"""Permutation importance in cost."""

import numpy as np
import pandas as pd
import pytest

from adacsl.report.sections import importance

HOSTILE = "</script><img src=x onerror=alert(1)>%{x}"


def test_permutation_figure_shows_15_columns_costliest_on_top_and_sums_up_the_rest():
    cost = np.arange(20) / 100
    worth = pd.DataFrame({"column": [f"{HOSTILE}{i}" for i in range(20)], "cost": cost})
    worth["low"], worth["high"] = cost - 0.1, cost + 0.1
    figure = importance.permutation_figure(worth, unit="EUR")
    drawn = {name: value for trace in figure.data for name, value in zip(trace.y, trace.x, strict=True)}
    assert sorted(drawn.values()) == pytest.approx(cost[5:])
    assert figure.layout.yaxis.categoryarray[0].endswith("19")
    assert not [name for name in drawn if "<" in name]
    assert figure.data[0].x.tolist() == pytest.approx(cost[:10:-1])  # their intervals lie above zero
    assert figure.layout.xaxis.title.text.endswith("[EUR]<br>the other 5 in all: 0.1")
