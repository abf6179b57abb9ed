"""Checks of data: planted faults are found, clean tables raise nothing, and what can be silenced is."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris

import adacsl
from adacsl import CostMatrix, Task, check
from adacsl.adaptive.controller import LAMBDA_BOUNDS
from adacsl.datasets import Checks, Finding, checks, load_task
from adacsl.datasets.checks import FEW, LEAKAGE, check_task, leakage_share
from adacsl.datasets.findings import CODES, finding
from adacsl.estimators.model_checks import AT_BOUND, STILL_FALLING

COSTS = {"fp": 1, "fn": 8}
PAGE = Path(__file__).parents[2] / "docs/guide/diagnose/checks.md"


def clean(n=600, seed=0, share=0.3):
    """Numbers, counts, words, missing values, and a label that depends on some of them."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "income": rng.lognormal(8, 1, n).round(2),
            "visits": rng.poisson(3, n),
            "region": rng.choice(["north", "south", "east", "west"], n),
            "score": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "paid": rng.random(n) < 0.4,
        }
    )
    risk = frame["visits"] + frame["score"].fillna(0) + 2 * (frame["region"] == "east") + rng.normal(0, 1.5, n)
    return frame, (risk > np.quantile(risk, 1 - share)).astype(int).to_numpy()


def codes(frame, y, costs=COSTS, **known):
    return check(frame, y, costs, **known).codes


# planted faults


def duplicated(X, y):
    rows = np.r_[np.arange(len(y)), np.arange(30)]
    return X.iloc[rows], y[rows]


def commented(X, y):
    words = np.random.default_rng(1).choice(["late", "late again", "moved", "asked twice"], (len(y), 6))
    return X.assign(comment=[" ".join(row) for row in words]), y


def dated(X, y):
    days = np.random.default_rng(1).integers(0, 900, len(y))
    return X.assign(opened=(np.datetime64("2022-01-01") + days).astype(str)), y


def dominated(X, y):
    X.loc[np.flatnonzero(y)[3], "income"] = 1e9
    return X, y, {"fp": 5, "fn": "income"}


def leaking(X, y):
    wrong = np.random.default_rng(1).random(len(y)) < 0.002
    return X.assign(outcome=np.where(y ^ wrong, "refunded", "closed")), y


RNG = np.random.default_rng(1)
PLANTED = {
    "duplicate-rows": duplicated,
    "target-leakage": leaking,
    "looks-like-id": lambda X, y: (X.assign(customerID=RNG.permutation(len(y)) + 10_000), y),
    "unique-text": commented,
    "few-rows": lambda X, y: (X[:80], np.r_[np.ones(40, int), np.zeros(40, int)]),
    "few-positives": lambda X, y: (X, np.where(np.cumsum(y) > 25, 0, y)),
    "groups-likely": lambda X, y: (X.assign(patient=RNG.integers(0, 150, len(y)), seen=1.5), y),
    "time-ignored": dated,
    "empty-column": lambda X, y: (X.assign(fax=None, notes=" "), y),
    "row-dominates": dominated,
}


@pytest.mark.parametrize("code", PLANTED)
def test_a_planted_fault_is_found(code):
    result = codes(*PLANTED[code](*clean()))
    assert code in result
    assert set(result) <= {code, "constant-column"}


def test_a_row_that_dominates_all_costs_is_found_without_a_warning():
    X, y, costs = dominated(*clean())  # a warning would be an error here
    assert codes(X, y, costs) == ("row-dominates",)
    assert codes(X, y, {"fp": 5, "fn": "income - 500"}) == ("cost-below-correct", "row-dominates")
    y_known = np.where(y == 1, X["visits"] + 1.0, 0.0)
    assert codes(X, y, {"fp": 5, "fn": y_known}) == ("cost-leakage",)


def filled_for_one_class(kind, y, share=1.0):
    """Return a column that is filled for positives only, or for a share of them."""
    rng = np.random.default_rng(1)
    days = pd.Series(pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 900, len(y)), unit="D"))
    filled = (y == 1) & (rng.random(len(y)) < share)
    values = {
        "dates": days,
        "dates with a zone": days.dt.tz_localize("UTC"),
        "dates as text": days.dt.strftime("%Y-%m-%d"),
        "dates of another spelling": days.dt.strftime("%d.%m.%Y"),
        "python dates": days.dt.date,
        "numbers": pd.Series(rng.normal(size=len(y))),
        "numbers as text": pd.Series(rng.normal(size=len(y))).map("{:.4f}".format),
        "comments": commented(pd.DataFrame(index=range(len(y))), y)[0]["comment"],
        "words": pd.Series([f"w{i}" for i in rng.permutation(len(y))]),
        "ids": pd.Series(rng.permutation(len(y)) + 1000),
        "codes": pd.Series(rng.choice(["a", "b"], len(y))),
    }[kind]
    return values.where(filled, None)


KINDS = (
    *("dates", "dates with a zone", "dates as text", "dates of another spelling", "python dates", "numbers"),
    *("numbers as text", "comments", "words", "ids", "codes"),
)


@pytest.mark.parametrize(("kind", "share"), [(kind, (0.7, 1.0)[i % 2]) for i, kind in enumerate(KINDS)])
def test_a_column_filled_for_one_class_only_is_found(kind, share):
    X, y = clean()
    result = check(X.assign(closed_on=filled_for_one_class(kind, y, share)), y, COSTS)
    assert [(each.code, each.severity) for each in result] == [("target-leakage", "error")]
    assert "'closed_on'" in result.findings[0].text
    assert "missing" in result.findings[0].text or share == 1.0


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_a_date_filled_for_one_class_only_is_found_in_every_format(tmp_path, suffix):
    X, y = clean()
    path = tmp_path / f"loans.{suffix}"
    frame = X.assign(closed_on=filled_for_one_class("dates", y), default=y)
    {
        "csv": lambda: frame.to_csv(path, index=False),
        "parquet": lambda: frame.to_parquet(path),
        "jsonl": lambda: frame.to_json(path, orient="records", lines=True, date_format="iso"),
    }[suffix]()
    (result,) = check_task(load_task(str(path), target="default", costs=COSTS))
    assert (result.code, result.severity) == ("target-leakage", "error")


def test_dates_that_leak():
    X, y = clean()
    three = np.arange(600) % 3
    (result,) = check(X.assign(closed_on=filled_for_one_class("dates as text", three)), three, "balanced")
    assert (result.code, result.severity) == ("target-leakage", "error")
    dates = filled_for_one_class("dates as text", y)
    assert codes(X.assign(closed_on=dates.fillna("open")), y) == ("target-leakage",)  # another word for missing
    opened, y = dated(*clean())
    result = check(opened.assign(closed_on=dates)[["closed_on", *opened]], y, COSTS)
    assert result.codes == ("target-leakage", "time-ignored")
    assert "'opened'" in result.findings[1].text  # the date that leaks is not offered as the time


@pytest.mark.parametrize(("kind", "seed"), [(kind, i % 3) for i, kind in enumerate(KINDS)])
def test_missing_values_that_only_hint_at_the_class_are_not_called_leakage(kind, seed):
    X, y = clean(seed=seed)
    chance = np.random.default_rng(seed).random(len(y))
    column = filled_for_one_class(kind, np.ones(len(y), dtype=int)).where(chance < np.where(y == 1, 0.9, 0.15), None)
    assert "target-leakage" not in codes(X.assign(last=column), y)
    few = pd.Series(filled_for_one_class(kind, y)).where(np.cumsum(y) <= 5, None)  # five values, all of one class
    assert "target-leakage" not in codes(X.assign(last=few), y)
    common = filled_for_one_class(kind, 1 - y).where(np.arange(len(y)) < 40, None)  # of the common class
    assert "target-leakage" not in codes(X.assign(last=common), y)


@pytest.mark.parametrize("values", [np.arange(600), np.arange(600) * 977, [f"c{i}" for i in range(600)]])
@pytest.mark.parametrize("repeats", [1, 12])
def test_an_id_with_a_few_repeated_values_is_found(values, repeats):
    X, y = clean()
    ids = np.array(values)
    ids[-repeats:] = ids[:repeats]
    result = check(X.assign(loan_id=ids), y, COSTS)
    assert result.codes == ("looks-like-id",)
    assert "nearly every row" in result.findings[0].text


def test_an_id_with_missing_values_or_leading_zeros_is_found():
    X, y = clean()
    ids = pd.Series(np.arange(600.0) * 977)
    assert codes(X.assign(loan_id=ids.where(ids.index != 5)), y) == ("looks-like-id",)
    assert codes(X.assign(loan_id=[f"{i:06d}" for i in range(600)]), y) == ("looks-like-id",)
    seconds = pd.Timestamp("2024-03-31 08:00") + pd.to_timedelta(np.arange(600), unit="s")
    assert codes(X.assign(logged=seconds.astype(str)), y) == ("time-ignored",)  # no id: dates


def test_an_id_of_a_sorted_file_leaks_the_label_and_groups_of_one_class_each_do_not():
    X, y = clean()
    order = np.argsort(y, kind="stable")
    (result,) = check(X.iloc[order].assign(loan_id=np.arange(600)), y[order], COSTS)
    assert (result.code, result.severity) == ("target-leakage", "error")
    rank = np.argsort(np.argsort(y, kind="stable"))
    assert codes(X.assign(patient=rank // 20), y) == ("groups-likely",)


# clean tables have no findings


@pytest.mark.parametrize("seed", range(5))
def test_clean_tables_have_no_findings(seed):
    assert str(check(*clean(seed=seed), COSTS)) == "no findings"


@pytest.mark.parametrize("name", ["german-credit", "breast-cancer", "wine", "iris"])
def test_real_tables_that_are_clean_have_no_findings(name):
    if name == "iris":  # one column separates a class from the others, and two rows happen to be equal
        assert codes(*load_iris(return_X_y=True, as_frame=True), "balanced") == ()
        return
    task = load_task(name)
    assert check_task(task).codes == ()
    if name == "breast-cancer":  # no sound column comes near the limit
        assert 0.85 < max(leakage_share(task.X[column], task.y, 2) for column in task.X) < 0.95


DIRTY = {
    "marketing-campaign": ("duplicate-rows", "time-ignored"),
    "creditcard-fraud": ("time-ignored", "rare-positive", "duplicate-rows"),
}


@pytest.mark.parametrize(
    "name",
    [
        *("telco-churn", "ann-thyroid", "churn-tv", "bank-marketing", "marketing-campaign"),
        *(pytest.param(n, marks=pytest.mark.weekly) for n in ("adult", "give-me-some-credit", "creditcard-fraud")),
    ],
)
def test_findings_of_the_published_tables(name):
    try:
        task = load_task(name)
    except adacsl.datasets.DataError as error:
        pytest.skip(str(error))
    given = () if task.findings else ("costs-not-given",)  # those without costs of their own
    assert set(check_task(task, ["costs-not-given"]).codes) == set(DIRTY.get(name, ()))
    assert len(check_task(task)) == len(DIRTY.get(name, ())) + (not given)


# limits of single checks


def test_equal_rows_of_coarse_columns_are_not_duplicates():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"sex": rng.choice(["f", "m"], 500), "age": rng.integers(20, 30, 500)})
    assert X.duplicated().sum() > 400
    assert codes(X, rng.integers(0, 2, 500)) == ()


def test_duplicates_but_for_the_number_of_the_row_are_duplicates():
    X, y = duplicated(*clean())
    result = check(X.assign(row_no=np.arange(len(y))), y, COSTS)
    assert result.codes == ("duplicate-rows", "looks-like-id")
    text = "30 of 630 rows (4.8 %) are duplicates of others but for 'row_no', label included (row 601"
    assert text in result.findings[0].text
    assert codes(X, y, time=np.arange(len(y))) == ()  # the same again, at another time
    X, y = clean(3000)
    rows = np.r_[np.arange(3000), 7]
    (result,) = check(X.iloc[rows], y[rows], COSTS)
    assert (result.code, result.severity) == ("duplicate-rows", "info")  # few


def test_columns_that_only_help_are_no_leakage():
    X, y = clean(2000)
    noise = np.random.default_rng(3).normal(size=len(y))
    assert codes(X.assign(strong=3 * y + noise, grade=np.clip(np.round(2 * y + noise), 0, 4)), y) == ()
    (result,) = check(X.assign(same=y + noise / 15), y, COSTS)
    assert result.severity == "error"
    X, y = clean(300)
    assert "target-leakage" not in codes(pd.concat([X] * 4), np.tile(y, 4))  # nor do duplicates make one


@pytest.mark.parametrize(
    ("name", "values", "identifies"),
    [
        ("id", np.arange(600) * 977, True),
        ("PassengerId", np.arange(600) * 977.0, True),
        ("anything", np.random.default_rng(0).permutation(600), True),
        ("width", np.random.default_rng(0).permutation(600) * 977, False),  # a measure may differ everywhere
        ("id", np.random.default_rng(0).normal(size=600), False),
    ],
)
def test_whole_numbers_identify_rows_where_they_are_called_so_or_count_them(name, values, identifies):
    X, y = clean()
    assert codes(X.assign(**{name: values}), y) == (("looks-like-id",) if identifies else ())


def test_text_that_is_numbers_or_words_without_blanks():
    X, y = clean()
    rng = np.random.default_rng(5)
    assert codes(X.assign(total=[f"{v:.3f}" for v in rng.normal(size=600)]), y) == ()
    assert codes(X.assign(key=[f"k{i}-{i * 7}" for i in range(600)]), y) == ("looks-like-id",)
    assert codes(X.assign(town=rng.choice([f"town {i}" for i in range(60)], 600)), y) == ()


@pytest.mark.parametrize("name", ["patient_nbr", "customer", "accountId", "Client No"])
def test_groups_are_asked_for_once(name):
    X, y = clean()
    who = np.random.default_rng(1).integers(0, 90, 600)
    assert codes(X.assign(**{name: who}), y) == ("groups-likely",)
    assert codes(X.assign(**{name: [f"c{i}" for i in who]}), y) == ("groups-likely",)
    assert codes(X.assign(**{name: who}), y, groups=who) == ()
    assert codes(X.assign(**{name: who % 3}), y) == ()  # three kinds of rows


def test_times():
    X, y = clean()
    assert codes(X.assign(born=dated(X, y)[0]["opened"]), y) == ()
    assert codes(X.assign(time=np.arange(600) // 3 * 60.0), y) == ("time-ignored",)
    assert codes(X.assign(time=np.random.default_rng(0).random(600)), y) == ()  # how long something took
    assert codes(dated(X, y)[0], y, time="opened") == ()


def test_which_class_is_positive():
    X, y = clean(2000)
    text = str(check(X, 1 - y, COSTS))
    assert "positive-is-common" in text
    assert "70 % of the rows are '1', and a false negative costs 8 false positives" in text
    assert codes(X, 1 - y, {"fp": 8, "fn": 1}) == ()
    assert codes(*clean(2000, share=0.55)) == ()
    assert codes(X, 1 - y) == ("positive-is-common",)
    assert codes(X, 1 - y, None) == ("costs-not-given",)
    rare = clean(8000, share=0.008)
    assert codes(*rare) == ("rare-positive",)


def test_costs_that_nobody_gave_are_named():
    X, y = clean()
    assert codes(X, y, None) == ("costs-not-given",)
    assert "so a false negative costs 2.33 false positives" in str(check(X, y))
    assert codes(X, y, "balanced") == ()
    assert codes(X, np.arange(600) % 3, "balanced") == ()


def test_few_rows_of_a_class_of_many():
    X, _ = clean()
    y = np.r_[np.zeros(300, int), np.ones(275, int), np.full(17, 2), np.full(8, 3)]
    result = check(X, y, CostMatrix.from_array(1 - np.eye(4), rows="predicted"))
    assert [(f.code, f.severity, f.text[:12]) for f in result] == [
        ("few-positives", "error", "8 rows are '"),
        ("few-positives", "warning", "17 rows are "),
    ]


def test_odd_tables_are_looked_at_all_the_same():
    X, y = clean(100, share=0.4)
    odd = pd.concat([X, X[["visits"]]], axis=1)  # two columns of one name
    assert codes(odd, y) == ()
    with pytest.raises(adacsl.datasets.DataError, match="column 'tags' holds lists"):
        check(X.assign(tags=[[1]] * 50 + [[2]] * 50), y)
    assert codes(X.astype({"region": "category", "visits": "Int64"}), y) == ()
    assert codes(X.select_dtypes("number").to_numpy(), y) == ()
    images = np.random.default_rng(0).integers(0, 256, (120, 4, 4, 3), dtype=np.uint8)
    assert codes(images, np.arange(120) % 2) == ()
    images[5] = images[3]
    assert codes(images, np.arange(120) % 2) == ("duplicate-rows",)


# the share of the labels that one column leaks


def by_hand(values, y, k, *, ordered):
    """Return the same, row by row."""
    rows = {}
    for value, label in zip(values, y, strict=True):
        rows.setdefault("none" if np.isnan(value) else value, []).append(label)
    order = sorted(v for v in rows if v != "none") + (["none"] if "none" in rows else [])
    if not ordered:  # rare text is one value
        rare = [value for value in order if len(rows[value]) < 20]
        order = [value for value in order if value not in rare] + (["rare"] if rare else [])
        rows["rare"] = [label for value in rare for label in rows[value]]

    def mostly(labels, label):
        return 2 * labels.count(label) > len(labels)

    right_of = {label: [] for label in range(k)}
    for place, value in enumerate(order):
        for at, label in enumerate(rows[value]):
            others = rows[value][:at] + rows[value][at + 1 :]
            beside = [rows[order[i]] for i in (place - 1, place + 1) if 0 <= i < len(order)]
            if len(rows[value]) >= 20:
                right = mostly(others, label)
            else:
                agreed = not others or 2 * others.count(label) >= len(others)
                right = ordered and agreed and any(mostly(labels, label) for labels in beside)
            right_of[label].append(right)
    return np.mean([np.mean(right_of[label]) for label in range(k)])


@given(st.integers(2, 3), st.integers(1, 60), st.integers(0, 10**6), st.booleans(), st.floats(0, 1))
def test_the_share_that_a_column_leaks_equals_counting(k, levels, seed, ordered, lean):
    rng = np.random.default_rng(seed)
    n = 60 * k
    y = rng.integers(0, k, n)
    assume(np.bincount(y, minlength=k).min() >= FEW)
    values = np.where(rng.random(n) < lean, y * levels // k, rng.integers(0, levels, n)).astype(float)
    values[rng.random(n) < 0.05] = np.nan
    column = values if ordered else pd.Series([None if np.isnan(v) else f"v{v:03.0f}" for v in values])
    share = leakage_share(column, y, k)
    assert share == pytest.approx(by_hand(values, y, k, ordered=ordered))
    order = rng.permutation(n)
    assert leakage_share(pd.Series(column)[order], y[order], k) == share
    if ordered:
        assert leakage_share(np.exp(values / 10), y, k) == share


@given(st.integers(0, 10**6), st.integers(20, 300), st.integers(2, 4), st.floats(0.1, 0.5))
def test_noise_leaks_nothing(seed, n, k, share):
    rng = np.random.default_rng(seed)
    y = np.minimum(rng.geometric(share, n) - 1, k - 1)
    for values in (rng.normal(size=n), rng.integers(0, 5, n), rng.integers(0, n, n)):
        assert leakage_share(values, y, k) < LEAKAGE


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(1, 40))
def test_duplicates_are_counted(seed, copies):
    X, y = clean(200, seed=seed % 50)
    rows = np.r_[np.arange(200), np.random.default_rng(seed).choice(200, copies, replace=False)]
    texts = [result.text for result in check(X.iloc[rows], y[rows], COSTS) if result.code == "duplicate-rows"]
    assert [text.split(" of ")[0] for text in texts] == [str(copies)]


# what was found


def test_findings_are_sorted_silenced_and_shown():
    X, y = leaking(*clean())
    X = X.assign(empty=np.nan)
    result = check(X, y)
    assert result.codes == ("target-leakage", "costs-not-given", "empty-column")
    assert result.has_errors
    assert len(result) == 3
    assert isinstance(result.findings[0], Finding)
    assert str(result).splitlines()[2] == (
        "info: column 'empty' holds no value at all: exclude it (--drop empty) [empty-column]"
    )
    fewer = check(X, y, ignore=["target-leakage", "empty-column"])
    assert fewer.codes == ("costs-not-given",)
    assert fewer.ignored == ("target-leakage", "empty-column")
    assert not fewer.has_errors
    assert not check(X, y, ignore=result.codes)
    assert result.frame()["page"].tolist()[0] == "docs/guide/diagnose/checks.md#target-leakage"
    assert Checks.from_list(result.to_list()) == Checks(result.findings)
    html = Checks.of([finding("empty-column", "column '<b>'")])._repr_html_()
    assert "&lt;b&gt;" in html
    assert Checks()._repr_html_() == "<p>no findings</p>"


def test_a_task_is_checked_once(monkeypatch):
    X, y = clean()
    task = Task.from_data(X.assign(fax=None), y, COSTS)
    first = check_task(task)
    monkeypatch.setattr(pd.DataFrame, "duplicated", None)
    assert check_task(task) == first
    assert not check_task(task, ["empty-column"])
    with pytest.raises(ValueError, match="there is no check 'empty-colum'; did you mean 'empty-column'"):
        check_task(task, ["empty-colum"])


def test_the_page_has_a_section_for_every_code_and_names_the_limits():
    page = PAGE.read_text(encoding="utf-8")
    assert sorted(re.findall(r"^### (\S+)$", page, flags=re.MULTILINE)) == sorted(CODES)
    for section in re.split(r"^### ", page, flags=re.MULTILINE)[1:]:
        for part in ("**Why", "**How", "**Remedy"):
            assert part in section, section.split("\n")[0]
    sure, unique = 100 * checks.SURE, 100 * checks.UNIQUE
    for text in (
        f"**error** from {sure:g} % on, **warning** from {100 * LEAKAGE:g} % on",
        f"Classes with fewer than {FEW} rows are not looked at",
        f"A value that {checks.LARGE} rows or more share",
        f"**warning** below {checks.OF_A_CLASS} rows of a class, **error** below {checks.LEAST}",
        f"**warning** below {checks.ROWS} rows",
        f"**warning** from {100 * checks.COPIES:g} % of the rows on",
        f"{checks.MANY} rows or more, and another value in more than {100 * checks.NEARLY:g} % of the rows",
        f"called an id (more than {unique:g} % then)",
        f"at least {FEW} rows have a value, {sure:g} % of them of one class",
        f"differs in more than {unique:g} % of the rows",
        f"at least {checks.FEW_LEVELS} different ones",
        f"within {100 * (AT_BOUND - 1):.0f} % of a bound ({LAMBDA_BOUNDS[0]:g} and {LAMBDA_BOUNDS[1]:g}",
        f"fell by more than {100 * STILL_FALLING:g} %",
    ):
        assert text in " ".join(page.split())


def test_infinite_numbers_are_found():
    X, y = clean()
    bad = X.assign(ratio=np.where(np.arange(len(y)) % 50 == 3, np.inf, X["income"]), debt=X["income"].map(repr))
    bad.loc[7, "debt"] = "-inf"
    result = [one for one in check(bad, y, COSTS) if one.code == "infinite-values"]
    assert [one.severity for one in result] == ["error"]
    assert result[0].text.startswith("2 columns (ratio, debt) hold infinite numbers")
    assert "infinite-values" in check(bad[["ratio"]].to_numpy(), y, COSTS).codes
    assert "infinite-values" not in check(X.assign(word=np.where(y == 1, "inf", "A")), y, COSTS).codes
