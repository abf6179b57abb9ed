"""Figures in a notebook that is exported to HTML: drawn in a real Chromium, without a network."""

import re
import warnings

import pandas as pd
import plotly.io
import pytest

from adacsl.report import notebook as notebook_figures
from adacsl.report.sections.costs import cost_figure
from adacsl.report.style import new_figure

JUPYTER = "plotly_mimetype"
"""The renderer that plotly chooses in a Jupyter kernel."""


@pytest.fixture
def jupyter(monkeypatch):
    monkeypatch.setattr(plotly.io.renderers, "default", JUPYTER)


def figures():
    table = pd.DataFrame({"method": ["net", "adacsl"], "cost": [0.5, 0.4], "low": [0.4, 0.3], "high": [0.6, 0.5]})
    two = new_figure("light", "Two", height=300, rows=2)
    two.add_scatter(x=[0, 1], y=[0, 1], row=1, col=1)
    return [cost_figure(table), two]


@pytest.fixture
def exported(jupyter, monkeypatch):
    """What nbconvert makes of a notebook that shows two figures."""
    nbformat = pytest.importorskip("nbformat")
    exporters = pytest.importorskip("nbconvert.exporters")
    monkeypatch.setattr(notebook_figures, "EMBEDDED_IN", [])
    notebook = nbformat.v4.new_notebook()
    for figure in figures():
        shown = nbformat.v4.new_output("display_data", data=figure._repr_mimebundle_())
        notebook.cells.append(nbformat.v4.new_code_cell("found.plot_costs()", outputs=[shown]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # without IPython code is coloured as plain Python
        text, _ = exporters.HTMLExporter().from_notebook_node(notebook)
    return text


def test_an_exported_notebook_holds_what_its_figures_need(exported):
    assert exported.count("Plotly.newPlot(") >= 2
    assert exported.count("plotly.js v") == 1  # the library, once
    assert "cdn.plot.ly/plotly" not in re.sub(r"<script[^>]*>/\*\*.*?</script>", "", exported, flags=re.DOTALL)


def test_figures_are_drawn_in_an_exported_notebook(browser, folder, exported):
    path = folder / "notebook.html"
    path.write_text(exported, encoding="utf-8")
    page = browser.new_page()
    page.route(re.compile("^http"), answer)
    page.goto(path.as_uri())
    page.wait_for_function("document.querySelectorAll('.js-plotly-plot .main-svg').length >= 4", timeout=30_000)
    sizes = page.evaluate("[...document.querySelectorAll('.js-plotly-plot')].map((each) => each.clientHeight)")
    assert len(sizes) == 2
    assert all(size > 100 for size in sizes)
    assert page.locator(".js-plotly-plot .scatterlayer .point").count() == 4
    page.close()


def answer(route):
    """Refuse the network, but for the module loader that exported notebooks ask for."""
    if "require" in route.request.url:
        script = "window.define = () => {}; window.define.amd = {}; window.require = () => {};"
        route.fulfill(body=script, content_type="text/javascript")
    else:
        route.abort()


def test_the_library_is_embedded_once_unless_its_cell_runs_again(jupyter, monkeypatch):
    monkeypatch.setattr(notebook_figures, "EMBEDDED_IN", [])
    cells = iter("abab")
    monkeypatch.setattr(notebook_figures, "notebook_cell", lambda: next(cells))
    figure = figures()[0]
    sizes = [len(figure._repr_mimebundle_()["text/html"]) > 1_000_000 for _ in range(4)]
    assert sizes == [True, False, True, False]


def test_other_renderers_are_left_to_plotly(monkeypatch):
    figure = figures()[0]
    monkeypatch.setattr(plotly.io.renderers, "default", JUPYTER)
    assert set(figure._repr_mimebundle_()) == {"application/vnd.plotly.v1+json", "text/html"}
    with pytest.raises(NotImplementedError):  # IPython then asks for the bundle
        figure._ipython_display_()
    monkeypatch.setattr(plotly.io.renderers, "default", "json")
    assert set(figure._repr_mimebundle_()) == {"application/json"}
