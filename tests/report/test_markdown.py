"""The report as Markdown: what a reader of Markdown makes of it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from adacsl.metrics.intervals import Interval
from adacsl.report.content import Table
from adacsl.report.data import Saved
from adacsl.report.markdown import table_of, to_markdown, words

HOSTILE = "</details><img src=x> | *a* [b](c) `d` @team $x$ <!-- # ~~e~~"
READER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def cells(text, kind="td"):
    tokens = READER.parse(text)
    opened = [place for place, token in enumerate(tokens) if token.type == f"{kind}_open"]
    return ["".join(part.content for part in tokens[place + 1].children) for place in opened]


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=12), min_size=2, max_size=4
    )
)
def test_cells_of_a_table_are_read_as_they_were_meant(row):
    result = cells(table_of(Table("", [f"h{i}" for i in range(len(row))], [row])))
    assert result == [" ".join(text.split()) for text in row]


def test_untrusted_text_is_never_markup():
    for text in (HOSTILE, "_a_", "1 < 2 & b", "#tag"):
        kinds = {token.type for token in READER.parseInline(words(text))[0].children}
        assert kinds <= {"text", "text_special"}, text


@pytest.fixture(scope="module")
def report(made):
    small = made(ratios=(8.0,), rows=50, seeds=2, methods=["net", "adacsl-cv"])
    (view,) = small.views
    saved = Saved("deciding at 0.5", Interval(40.0, 20.0, 60.0), Interval(0.2, 0.1, 0.3), Interval(0.5, 0.3, 0.9))
    seen = [
        {"code": "few-rows", "severity": "info", "text": "50 rows.", "page": ""},
        {"code": "looks-like-id", "severity": "warning", "text": f"Drop {HOSTILE}.", "page": ""},
    ]
    return replace(
        small, savings={view: saved}, volume=50_000, people="patients", checks={view[0]: seen},
        model={view: {"made for": "Deciding."}},
    )  # fmt: skip


def test_a_pull_request_shows_recommendation_money_people_costs_checks_and_model_card(report, tmp_path):
    text = to_markdown(report, tmp_path / "new" / "report.md")
    assert (tmp_path / "new" / "report.md").read_text(encoding="utf-8") == text
    (view,) = report.views
    assert "**Saves 10,000 EUR a year (95 % CI 5,000 to 15,000) against deciding at 0.5**" in text
    assert report.recommendations[view] in text
    result = cells(text)
    assert "10,000 (5,000 to 15,000)" in result
    assert "recommended" in next(cell for cell in result if cell.startswith("adacsl-cv ("))
    heads = cells(text, "th")
    assert "a year, 50,000 patients, EUR" in heads
    assert "difference" in heads
    assert "normalized cost" not in heads  # there is no room for all
    assert "> **Note:** 1 finding of the data checks to review before using these results." in text
    assert text.index("`looks-like-id`") < text.index("`few-rows`")
    assert "- **made for**: Deciding." in text
    html = [token.content for token in READER.parse(text) if token.type == "html_block"]
    assert len([block for block in html if block.startswith("<details>")]) == 2
    assert not any("img" in block for block in html)


def test_without_savings_and_checks_there_are_recommendation_and_costs(made):
    several = made(ratios=(2.0, 8.0), rows=30, seeds=2, methods=["net", "adacsl-cv"])
    text = to_markdown(several)
    assert "### Saving" not in text
    assert "checks" not in text
    assert text.count("### Cost of each method") == 2
    assert "## breast-cancer, ratio 8" in text


def test_entities_stay_as_they_are_written():
    assert READER.render(words("&lt;b&gt; & &#60;")) == "<p>&amp;lt;b&amp;gt; &amp; &amp;#60;</p>\n"
