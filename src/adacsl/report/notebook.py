"""Plotly figures that are also drawn where a notebook is exported to HTML."""

from __future__ import annotations

import sys
from typing import Any

from adacsl.base.extras import requires

with requires("compare"):
    import plotly.graph_objects as go
    import plotly.io


JUPYTER = "plotly_mimetype"
"""The renderer that plotly chooses in a Jupyter kernel."""

EMBEDDED_IN: list[str] = []
"""The notebook cell whose output holds plotly.js; empty: none so far."""


class Figure(go.Figure):  # type: ignore[misc]  # plotly has no types
    """Plotly figure with an HTML form beside the JSON that a Jupyter kernel writes and nbconvert leaves out."""

    def _ipython_display_(self) -> None:
        if plotly.io.renderers.default == JUPYTER:
            raise NotImplementedError("the notebook shows the MIME bundle")
        super()._ipython_display_()

    def _repr_mimebundle_(self, *given: Any, **options: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(*given, **options)
        if plotly.io.renderers.default == JUPYTER:
            bundle["text/html"] = notebook_html(self)
        return bundle


def notebook_html(figure: Any) -> str:
    """Return a figure as HTML for a notebook that is exported.

    The first figure of a kernel holds plotly.js, others use it; where the cell of the first runs again, it holds it
    again.
    """
    cell = notebook_cell()
    first = not EMBEDDED_IN or (bool(cell) and cell in EMBEDDED_IN)
    if first:
        EMBEDDED_IN[:] = [cell]
    return str(figure.to_html(full_html=False, include_plotlyjs=first, include_mathjax=False))


def notebook_cell() -> str:
    """Return the id of the running notebook cell, if the notebook gives one."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    parent: dict[str, Any] = getattr(shell, "get_parent", dict)()
    return str(parent.get("metadata", {}).get("cellId", ""))
