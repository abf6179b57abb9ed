"""The page of a deployed model: complete, offline, and drawn in both themes."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from adacsl import CostMatrix, CostSensitiveClassifier, monitor
from adacsl.monitoring.page import write_monitoring

HOSTILE = "</script><b>%{x}"


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(0)

    def drawn(n, share):
        y = rng.random(n) < share
        return rng.normal(size=(n, 2)) + y[:, None], np.where(y, HOSTILE, "good")

    model = CostSensitiveClassifier(
        CostMatrix(fp=1, fn=8), learner=LogisticRegression(), pos_label=HOSTILE, random_state=0
    )
    X, y = drawn(800, 0.3)
    when = np.datetime64("2026-04-01") + np.arange(800) // 10
    return monitor(model.fit(*drawn(800, 0.1)), X, np.where(np.arange(800) < 500, y, None), time=when)


def test_the_page_shows_what_was_found(found, tmp_path):
    text = write_monitoring(found, tmp_path / "page.html", title=f"Loans {HOSTILE}").read_text(encoding="utf-8")
    for id_ in ("costs", "time", "shares", "scores"):
        assert f'data-figure="view-0-{id_}"' in text
    assert HOSTILE not in text
    assert "default-src" in text
    assert "<li>800 samples, 500 of them labelled" in text
    with pytest.raises(IsADirectoryError):
        write_monitoring(found, tmp_path)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_is_drawn(browser, found, tmp_path, theme):
    path = write_monitoring(found, tmp_path / "page.html")
    context = browser.new_context(color_scheme=theme, viewport={"width": 400, "height": 800})
    page, log = context.new_page(), []
    page.on("console", lambda message: log.append(message.text))
    page.on("pageerror", lambda error: log.append(str(error)))
    page.on("request", lambda request: log.append(request.url) if not request.url.startswith("file:") else None)
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]", state="attached", timeout=60_000)
    page.evaluate("document.querySelectorAll('details').forEach((part) => (part.open = true))")
    page.wait_for_function("() => document.querySelectorAll('.plot[data-drawn]').length === 4", timeout=60_000)
    drawn = page.evaluate("[...document.querySelectorAll('.plot')].map(place => place.dataset.drawn)")
    assert drawn == [theme] * 4
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert log == []
    context.close()
