"""Average ranks over many data sets."""

import pandas as pd

from adacsl.report.sections import ranks


def test_rank_figure_without_a_critical_difference():
    table = pd.DataFrame({"method": ["a", "b"], "rank": [1.0, 2.0], "critical_difference": [None, None]})
    assert ranks.critical_difference(table) is None
    assert not ranks.rank_figure(table).layout.shapes
    table = table.drop(columns="critical_difference")
    table.attrs["critical_difference"] = 0.5
    assert ranks.critical_difference(table) == 0.5
