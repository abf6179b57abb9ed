"""Colours of both themes, and what all figures share."""

import json

import numpy as np
import pandas as pd
import plotly.io as pio
import pytest

from adacsl.report import style
from adacsl.report.sections import calibration, costs, errors, importance, sensitivity, training

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
    epochs = training.epoch_table(report.histories_of(VIEW))
    own = outcomes[name]
    worth = pd.DataFrame({"column": ["a", "b"], "cost": [0.2, 0.0], "low": [0.1, 0.0], "high": [0.3, 0.0]})
    return {
        "cost": costs.cost_figure(rows, recommended=name, **options),
        "ratio": sensitivity.ratio_figure(sensitivity.ratio_table(report.results), **options),
        "threshold": errors.threshold_figure(errors.threshold_curve(own), errors.threshold_points(own), **options),
        "lambda": training.lambda_figure(epochs, **options),
        "history": training.history_figure(epochs, **options),
        "calibration": calibration.calibration_figure(calibration.calibration_table(shown), **options),
        "brier": calibration.brier_figure(calibration.brier_table(shown), **options),
        "decision": calibration.decision_figure(calibration.decision_table(shown), **options),
        "optimism": training.optimism_figure(training.optimism_table(report.results), **options),
        "permutation": importance.permutation_figure(worth, **options),
    }


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_figure_has_a_title_named_axes_and_one_look(report, theme):
    palette = style.PALETTES[theme]
    other = style.PALETTES["dark" if theme == "light" else "light"]
    for name, figure in all_figures(report, theme=theme).items():
        assert figure.layout.title.text, name
        axes = [axis for axis in (*figure.select_xaxes(), *figure.select_yaxes()) if axis.title.text]
        assert axes, name
        assert figure.layout.template.layout.paper_bgcolor == palette.paper
        text = pio.to_json(figure)
        assert not [color for color in other if color in text], name


def test_names_are_shown_letter_by_letter(made):
    report = made(ratios=(8.0,), rows=40, seeds=2, methods=["net", "adacsl-cv"], text=lambda value: value + HOSTILE)
    view = report.views[0]
    outcomes, rows = report.outcomes_of(view), report.summary_of(view)
    epochs = training.epoch_table(report.histories_of(view))
    drawn = [
        costs.cost_figure(rows, recommended=report.recommended_of(view), unit=HOSTILE),
        sensitivity.ratio_figure(
            sensitivity.ratio_table(report.results), sensitivity.redecided_table(outcomes, [2, 8])
        ),
        training.lambda_figure(epochs),
        training.history_figure(epochs, unit=HOSTILE),
        calibration.calibration_figure(calibration.calibration_table(outcomes)),
        training.optimism_figure(training.optimism_table(report.results)),
    ]
    for figure in drawn:
        spec = json.dumps(json.loads(pio.to_json(figure, engine="json")), ensure_ascii=False)
        assert "<img" not in spec
        templates = [trace.hovertemplate or "" for trace in figure.data]
        assert not [text for text in templates if "onerror" in text]
