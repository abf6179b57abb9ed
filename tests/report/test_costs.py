"""The figure and the table of all methods."""

import numpy as np
import pytest

from adacsl.report.sections import costs

VIEW = ("breast-cancer", 8.0)


def test_cost_figure_shows_each_method_once_lowest_cost_on_top(report):
    rows = report.summary_of(VIEW)
    figure = costs.cost_figure(rows, recommended="net-tuned", unit="EUR")
    drawn = {name: cost for trace in figure.data for name, cost in zip(trace.y, trace.x, strict=True)}
    assert drawn == dict(zip(rows["method"], rows["cost"], strict=True))
    assert list(figure.layout.yaxis.categoryarray) == rows["method"].tolist()
    assert figure.layout.yaxis.range[0] > figure.layout.yaxis.range[1]
    marked = next(trace for trace in figure.data if trace.name == "recommended")
    assert list(marked.y) == ["net-tuned"]
    assert "EUR" in figure.layout.xaxis.title.text
    whiskers = np.asarray(marked.x) - np.asarray(marked.error_x.arrayminus)
    assert whiskers == pytest.approx(rows.loc[rows["method"] == "net-tuned", "low"])


def test_cost_figure_names_what_lies_beyond_its_end(report):
    rows = report.summary_of(VIEW)
    assert not costs.cost_figure(rows).layout.annotations
    far = rows["method"] == "always-negative"
    figure = costs.cost_figure(rows.assign(cost=rows["cost"].where(~far, 987.6), high=rows["high"].where(~far, 999.0)))
    assert figure.layout.xaxis.range[1] < 2
    assert [(note.y, note.text) for note in figure.layout.annotations] == [("always-negative", "987.6 \u2192")]


def test_cost_figure_of_one_repetition_has_no_interval(report):
    rows = report.summary_of(VIEW).assign(low=np.nan, high=np.nan).drop(columns="significance")
    assert len(costs.cost_figure(rows).data) == 1
