"""A comparison parses, checks and splits a table once, and without a folder its results stay in memory."""

import sys
import tempfile
from collections import Counter
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest

import adacsl
from adacsl import CostMatrix, compare, load_comparison
from adacsl.comparison import store

ROWS = 1500
COSTS = CostMatrix(fp=1, fn=5)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    amount = rng.normal(size=ROWS)
    y = (amount + rng.normal(size=ROWS) > 0.5).astype(int)
    shop, paid = rng.choice(["web", "city", None], ROWS), rng.choice(["yes", "no"], ROWS)
    return pd.DataFrame({"amount": amount, "shop": shop, "paid": paid}), y


@contextmanager
def counted():
    """Count calls of functions of the package, and how many texts ``clean_text`` got each time."""
    calls, cleaned = Counter(), []

    def note(frame, event, _):
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("adacsl."):
            name = frame.f_code.co_qualname
            calls[f"{module.removeprefix('adacsl.')}:{name}"] += 1
            if name == "clean_text":
                cleaned.append(len(frame.f_locals["values"]))

    sys.setprofile(note)
    try:
        yield calls, cleaned
    finally:
        sys.setprofile(None)


def compared(table, **more):
    return compare(
        *table, COSTS, methods=["logistic", "gbm-bayes"], repeats=1, folds=3, n_jobs=1, progress=False, **more
    )


def test_a_comparison_parses_text_and_checks_the_data_once(table, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a comparison in memory needs no folder")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", refuse)
    with counted() as (calls, cleaned):
        compared(table)
    assert [n for n in cleaned if n >= ROWS] == [ROWS] * 2  # the two columns of text
    assert calls["datasets.checks:check_task"] == 1
    assert calls["datasets.task:Task.__post_init__"] == 1
    assert calls["datasets.encoder:TableEncoder.fit"] == 3
    assert calls["datasets.ordinal_encoder:ColumnEncoder.fit"] == 3
    assert not [name for name in calls if name.startswith("storage.documents")]


def test_a_fit_parses_text_once(table):
    with counted() as (_, cleaned):
        adacsl.method("logistic", costs=COSTS).fit(*table)
    assert [n for n in cleaned if n >= ROWS * 0.5] == [ROWS] * 2


def test_a_folder_gives_back_what_memory_holds(table, tmp_path, monkeypatch):
    here = compared(table)
    measured = Counter()
    real = store.check_result

    def count(result, *given):
        measured[result.fit] += 1
        real(result, *given)

    monkeypatch.setattr(store, "check_result", count)
    there = compared(table, folder=tmp_path / "run")
    assert not measured  # what a run has written it need not read
    again = load_comparison(tmp_path / "run")
    assert set(measured.values()) == {1}
    assert set(measured) == set(again.fits)
    for found in (there, again):
        wanted = here.results.drop(columns="seconds")
        pd.testing.assert_frame_equal(found.results.drop(columns="seconds"), wanted, check_exact=True)
        for fit, result in here.fits.items():
            other = found.fits[fit]
            for name in ("scores", "decisions"):
                np.testing.assert_array_equal(getattr(other, name), getattr(result, name))
                assert getattr(other, name).dtype == getattr(result, name).dtype
        assert str(found.recommendation) == str(here.recommendation)
