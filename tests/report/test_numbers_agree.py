"""Headline, recommendation, tiles and table of one page state the same numbers, in one unit."""

import re
from html import unescape

import numpy as np
import pandas as pd
import pytest

import adacsl
from adacsl import CostMatrix

NUMBER = r"[−-]?\d[\d,]*(?:\.\d+)?"  # noqa: RUF001  the page has minus signs
TOTAL = 20_000


def number(text):
    return float(text.replace("−", "-").replace(",", ""))  # noqa: RUF001


def unit_of(text):
    """Return half of the last digit a number is written with."""
    whole, _, decimals = text.replace(",", "").partition(".")
    zeros = len(whole) - len(whole.rstrip("0")) if not decimals else 0
    return 0.5 * 10.0 ** (zeros - len(decimals))


def agree(*texts):
    """Assert that texts may be one number, each rounded its own way."""
    for a in texts:
        for b in texts:
            assert abs(number(a) - number(b)) <= unit_of(a) + unit_of(b) + 1e-12, texts


def stripped(html):
    return unescape(re.sub(r"<[^>]+>", " ", html))


def words_of(page, start, end):
    part = page[page.index(start) : page.index(end)]
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", part))).replace("\u00a0", " ")


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, 5))
    y = (x @ [1.0, -0.7, 0.4, 0, 0] + rng.logistic(size=900) > 1.2).astype(int)
    methods = ["logistic", "logistic-weighted", "gbm-bayes", "always-negative", "always-positive"]
    frame = pd.DataFrame(x, columns=list("abcde"))
    return adacsl.compare(frame, y, CostMatrix(fp=1, fn=6), methods=methods, repeats=1, folds=3, n_jobs=1)


@pytest.fixture(scope="module", params=[{}, {"unit": "EUR", "volume": TOTAL}], ids=["percent", "money"])
def page(request, result, tmp_path_factory):
    path = result.report(tmp_path_factory.mktemp("report") / "page.html", **request.param)
    return path.read_text(encoding="utf-8"), request.param


def rows_of(page):
    """Return the cells of the table of methods by method, and its headers."""
    table = next(
        part for part in re.findall(r"<table.*?</table>", page, re.DOTALL) if "fit time" in part and "lowest" in part
    )
    cells = [
        [" ".join(stripped(cell).split()) for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)]
        for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL)
    ]
    return {row[0].split()[0]: row for row in cells[1:]}, cells[0]


def test_prose_tiles_and_table_agree(page, result):
    text, asked = page
    summary = words_of(text, '<section class="summary"', '<section class="details"')
    rows, heads = rows_of(text)
    row = rows[result.best]
    assert "recommended" in row[0]
    mean, low, high = re.match(rf"({NUMBER}) \(({NUMBER}) to ({NUMBER})\)", row[1]).groups()
    stated = re.search(rf"Mean cost ({NUMBER}) \(95 % CI ({NUMBER})-({NUMBER})\) per sample", summary).groups()
    for prose, cell in zip(stated, (mean, low, high), strict=True):
        agree(prose, cell)
    tile = re.search(rf"Mean cost per sample ({NUMBER})(?: EUR)? 95 % CI ({NUMBER})-({NUMBER})", summary).groups()
    for prose, cell in zip(tile, (mean, low, high), strict=True):
        agree(prose, cell)

    # the saving: headline, recommendation and tile
    saved, against, other = re.search(
        rf"per sample, ({NUMBER}) % \(95 % CI [^)]*\) less than ([^(;.]+) \(({NUMBER})\)", summary
    ).groups()
    assert re.search(rf"Saved {re.escape(saved)} % against {re.escape(against)}", summary)
    agree(saved, f"{100 * (1 - number(mean) / number(rows['always-positive'][1].split()[0])):.0f}")
    agree(other, rows["always-positive"][1].split()[0])
    if not asked:
        assert re.search(rf"{re.escape(saved)} % lower cost \(95 % CI [^)]*\) than {re.escape(against)}", summary)
    else:
        yearly, ends = re.search(rf"Saves ({NUMBER}) EUR a year \(95 % CI ([^)]*)\) against", summary).groups()
        exact = TOTAL * (result_mean(result, "always-positive") - result_mean(result, result.best))
        assert abs(number(yearly) - exact) <= unit_of(yearly)
        assert number(ends.split(" to ")[0]) < number(yearly) < number(ends.split(" to ")[1])

    # the difference from the lowest cost
    if more := re.search(rf"It costs ({NUMBER}) % \(95 % CI ({NUMBER}) to ({NUMBER}) %\) more than ([\w-]+)", summary):
        above = re.match(rf"({NUMBER}) % \(({NUMBER}) to ({NUMBER}) %\)", row[heads.index("above the lowest")]).groups()
        for prose, cell in zip(more.groups()[:3], above, strict=True):
            agree(prose, cell)
        assert rows[more[4]][heads.index("difference")] == "lowest cost"


def result_mean(result, method):
    return float(result.table.set_index("method").loc[method, "mean"])


def test_a_page_has_one_unit_fit_times_and_few_words(page):
    text, asked = page
    rows, heads = rows_of(text)
    times = [row[heads.index("fit time")] for row in rows.values()]
    assert all(re.fullmatch(r"[\d.,e\u2212-]+ (s|min|h).*", time) for time in times), times
    shown = re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL)
    assert ("EUR" in shown) == bool(asked)
    assert not re.search(r"\b(USD|units of cost)\b|[$€]\d", shown)
    title = unescape(re.search(r"<title>(.*?)</title>", text, re.DOTALL)[1])
    assert title.strip() not in ("", "data", "Cost comparison: data")


def test_a_wrong_number_is_found():
    agree("0.53", "0.525", "0.5254")
    agree("8,800", "8,849")
    with pytest.raises(AssertionError):
        agree("0.53", "0.514")
    with pytest.raises(AssertionError):
        agree("25", "26.2")
