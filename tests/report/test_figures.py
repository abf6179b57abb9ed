"""What the figures show; how they look is for eyes."""

import json

import numpy as np
import pandas as pd
import plotly.io as pio
import pytest

from adacsl.report import figures, frames, style

VIEW = ("breast-cancer", 8.0)
HOSTILE = "</script><img src=x onerror=alert(1)>%{x}"


def luminance(color):
    parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_can_be_read(theme):
    palette = style.PALETTES[theme]
    for color in (palette.ink, palette.muted, *palette.lines):
        assert contrast(color, palette.paper) >= 4.5
    assert contrast(palette.quiet, palette.paper) >= 1.5


def test_every_colour_has_one_partner_in_the_dark():
    light, dark = style.PALETTES["light"], style.PALETTES["dark"]
    assert len(set(light)) == len(light)
    assert len(set(dark)) == len(dark)
    assert not set(light) & set(dark)


def all_figures(report, **options):
    rows, outcomes = report.summary_of(VIEW), report.outcomes_of(VIEW)
    name = report.recommended_of(VIEW)
    shown = {key: outcomes[key] for key in list(outcomes)[:5]}
    epochs = frames.epoch_table(report.histories_of(VIEW))
    ranks = pd.DataFrame({"method": ["a", "b"], "rank": [1.2, 1.8], "critical_difference": [0.9, 0.9]})
    own = outcomes[name]
    worth = pd.DataFrame({"column": ["a", "b"], "cost": [0.2, 0.0], "low": [0.1, 0.0], "high": [0.3, 0.0]})
    return {
        "cost": figures.cost_figure(rows, recommended=name, **options),
        "ratio": figures.ratio_figure(frames.ratio_table(report.results), **options),
        "threshold": figures.threshold_figure(frames.threshold_curve(own), frames.threshold_points(own), **options),
        "lambda": figures.lambda_figure(epochs, **options),
        "history": figures.history_figure(epochs, **options),
        "calibration": figures.calibration_figure(frames.calibration_table(shown), **options),
        "brier": figures.brier_figure(frames.brier_table(shown), **options),
        "decision": figures.decision_figure(frames.decision_table(shown), **options),
        "optimism": figures.optimism_figure(frames.optimism_table(report.results), **options),
        "rank": figures.rank_figure(ranks, **options),
        "permutation": figures.permutation_figure(worth, **options),
    }


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_figure_has_a_title_named_axes_and_one_look(report, theme):
    palette = style.PALETTES[theme]
    other = style.PALETTES["dark" if theme == "light" else "light"]
    for name, figure in all_figures(report, theme=theme).items():
        assert figure.layout.title.text, name
        axes = [axis for axis in (*figure.select_xaxes(), *figure.select_yaxes()) if axis.title.text]
        assert axes or name == "rank", name
        assert figure.layout.template.layout.paper_bgcolor == palette.paper
        text = pio.to_json(figure)
        assert not [color for color in other if color in text], name


def test_permutation_figure_shows_15_columns_dearest_on_top_and_sums_up_the_rest():
    cost = np.arange(20) / 100
    worth = pd.DataFrame({"column": [f"{HOSTILE}{i}" for i in range(20)], "cost": cost})
    worth["low"], worth["high"] = cost - 0.1, cost + 0.1
    figure = figures.permutation_figure(worth, unit="EUR")
    drawn = {name: value for trace in figure.data for name, value in zip(trace.y, trace.x, strict=True)}
    assert sorted(drawn.values()) == pytest.approx(cost[5:])
    assert figure.layout.yaxis.categoryarray[0].endswith("19")
    assert not [name for name in drawn if "<" in name]
    assert figure.data[0].x.tolist() == pytest.approx(cost[:10:-1])  # their intervals lie above zero
    assert figure.layout.xaxis.title.text.endswith("[EUR]<br>the other 5 in all: 0.1")


def test_cost_figure_shows_each_method_once_cheapest_on_top(report):
    rows = report.summary_of(VIEW)
    figure = figures.cost_figure(rows, recommended="ce-tuned", unit="EUR")
    drawn = {name: cost for trace in figure.data for name, cost in zip(trace.y, trace.x, strict=True)}
    assert drawn == dict(zip(rows["method"], rows["cost"], strict=True))
    assert list(figure.layout.yaxis.categoryarray) == rows["method"].tolist()
    assert figure.layout.yaxis.range[0] > figure.layout.yaxis.range[1]
    marked = next(trace for trace in figure.data if trace.name == "recommended")
    assert list(marked.y) == ["ce-tuned"]
    assert "EUR" in figure.layout.xaxis.title.text
    whiskers = np.asarray(marked.x) - np.asarray(marked.error_x.arrayminus)
    assert whiskers == pytest.approx(rows.loc[rows["method"] == "ce-tuned", "low"])


def test_cost_figure_names_what_lies_beyond_its_end(report):
    rows = report.summary_of(VIEW)
    assert not figures.cost_figure(rows).layout.annotations
    far = rows["method"] == "always-negative"
    figure = figures.cost_figure(
        rows.assign(cost=rows["cost"].where(~far, 987.6), high=rows["high"].where(~far, 999.0))
    )
    assert figure.layout.xaxis.range[1] < 2
    assert [(note.y, note.text) for note in figure.layout.annotations] == [("always-negative", "987.6 \u2192")]


def test_cost_figure_of_one_repetition_has_no_interval(report):
    rows = report.summary_of(VIEW).assign(low=np.nan, high=np.nan).drop(columns="standing")
    assert len(figures.cost_figure(rows).data) == 1


def test_ratio_figure_has_points_where_cells_ran(report):
    ran = frames.ratio_table(report.results)
    figure = figures.ratio_figure(ran, highlight=["ce", "adacsl-cv"])
    points = [trace for trace in figure.data if trace.mode == "markers"]
    assert sum(len(trace.x) for trace in points) == len(ran)
    assert {trace.name for trace in figure.data if trace.mode == "lines"} == {"ce", "adacsl-cv"}
    ends = [note for note in figure.layout.annotations if note.name == style.LINE_END]
    assert {note.text for note in ends} == {"ce", "adacsl-cv"}


def test_labels_at_line_ends_do_not_overlap(report):
    figure = figures.ratio_figure(frames.ratio_table(report.results))
    heights = sorted(note.y for note in figure.layout.annotations if note.name == style.LINE_END)
    low, high = figure.layout.yaxis.range
    assert len(heights) == style.COLORED
    assert np.diff(heights).min() >= 0.05 * (high - low)


def test_labels_of_lines_that_leave_the_picture_stay_in_it(report):
    ran = frames.ratio_table(report.results)
    figure = figures.ratio_figure(ran.assign(normalized_cost=ran["normalized_cost"] + 5))
    heights = sorted(note.y for note in figure.layout.annotations if note.name == style.LINE_END)
    low, high = figure.layout.yaxis.range
    assert len(heights) == style.COLORED
    assert heights[-1] <= high
    assert np.diff(heights).min() >= 0.05 * (high - low)


def test_threshold_figure_marks_the_points(report):
    outcome = report.outcomes_of(VIEW)["adacsl-cv"]
    points = frames.threshold_points(outcome)
    figure = figures.threshold_figure(frames.threshold_curve(outcome), points)
    assert figure.data[0].line.shape == "hv"
    assert figure.data[0].x[-1] == 1.0
    marks = {trace.name: (trace.x[0], trace.y[0]) for trace in figure.data[1:]}
    expected = points.set_index("point")[["threshold", "cost"]]
    assert marks["chosen"] == pytest.approx(tuple(expected.loc["chosen"]))
    assert marks["cheapest with hindsight"] == pytest.approx(tuple(expected.loc["cheapest"]))


def test_lambda_figure_without_adaptive_methods_is_empty():
    epochs = frames.epoch_table({("ce", 0): [{"epoch": 1, "val_cost": 1.0}]})
    assert not figures.lambda_figure(epochs).data
    assert len(figures.history_figure(epochs).data) == 2  # the line and its band


def test_rank_figure_without_a_critical_difference():
    ranks = pd.DataFrame({"method": ["a", "b"], "rank": [1.0, 2.0], "critical_difference": [None, None]})
    assert figures.critical_difference(ranks) is None
    assert not figures.rank_figure(ranks).layout.shapes
    ranks = ranks.drop(columns="critical_difference")
    ranks.attrs["critical_difference"] = 0.5
    assert figures.critical_difference(ranks) == 0.5


def test_names_are_shown_letter_by_letter(made):
    report = made(ratios=(8.0,), rows=40, seeds=2, methods=["ce", "adacsl-cv"], text=lambda value: value + HOSTILE)
    view = report.views[0]
    outcomes, rows = report.outcomes_of(view), report.summary_of(view)
    epochs = frames.epoch_table(report.histories_of(view))
    drawn = [
        figures.cost_figure(rows, recommended=report.recommended_of(view), unit=HOSTILE),
        figures.ratio_figure(frames.ratio_table(report.results), frames.redecided_table(outcomes, [2, 8])),
        figures.lambda_figure(epochs),
        figures.history_figure(epochs, unit=HOSTILE),
        figures.calibration_figure(frames.calibration_table(outcomes)),
        figures.optimism_figure(frames.optimism_table(report.results)),
        figures.rank_figure(rows.assign(rank=1.0)),
    ]
    for figure in drawn:
        spec = json.dumps(json.loads(pio.to_json(figure, engine="json")), ensure_ascii=False)
        assert "<img" not in spec
        templates = [trace.hovertemplate or "" for trace in figure.data]
        assert not [text for text in templates if "onerror" in text]
