"""From data to verdict, table and report."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

from adacsl import CostMatrix
from adacsl.experiments import comparison
from adacsl.experiments.comparison import choose_ratios, compare, compare_tasks, load_comparison, make_task
from adacsl.experiments.jobs import plan_jobs
from adacsl.experiments.nets import Training
from adacsl.experiments.parts import Parts
from adacsl.experiments.protocol import Protocol, make_split
from adacsl.experiments.recipes import RECIPES, Recipe, choose_recipes
from adacsl.experiments.store import StoreError

QUICK = {"workers": 1, "progress": False, "epochs": 2, "device": "cpu"}


def table(n=240, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    y = np.where(x[:, 0] + rng.normal(size=n) > 0.8, "sick", "well")
    return pd.DataFrame(x, columns=["a", "b", "c"]).assign(city=rng.choice(["Ulm", "Ems"], n)), y


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    x, y = table()
    folder = tmp_path_factory.mktemp("runs") / "one"
    methods = [
        "always-positive",
        "ce",
        "ce-bayes",
        "gbm-bayes",
        "adacsl",
        Recipe("mine", "my own", learner=LogisticRegression()),
    ]
    return compare(
        x,
        y,
        CostMatrix(fp=1, fn=5),
        positive="sick",
        methods=methods,
        ratios=["1x", 20],
        seeds=3,
        folder=folder,
        **QUICK,
    )


@pytest.mark.parametrize(("engine", "kept"), [("joblib", True), ("ray", False)])
def test_nets_of_unfinished_jobs_are_kept_where_all_workers_reach_the_folder(tmp_path, monkeypatch, engine, kept):
    class SeenError(Exception):
        pass

    def run(jobs, work, store, **_):
        raise SeenError(work.keywords["parts"])

    monkeypatch.setattr(comparison, "run", run)
    with pytest.raises(SeenError) as seen:
        compare(*table(), CostMatrix(fp=1, fn=5), positive="sick", engine=engine, folder=tmp_path / "run", **QUICK)
    (parts,) = seen.value.args
    assert parts == (Parts(tmp_path / "run" / "parts") if kept else None)


def test_every_cell_has_a_result(found):
    assert len(found.results) == 6 * 2 * 3
    assert len(found.failures) == 0
    assert set(found.results["ratio"]) == {5.0, 20.0}


def test_the_table_holds_means_of_the_cells(found):
    row = found.table.query("method == 'ce-bayes' and ratio == 20").iloc[0]
    cells = found.results.query("method == 'ce-bayes' and ratio == 20")
    assert row["mean"] == pytest.approx(cells["cost"].mean())
    assert row["n"] == 3


def test_all_methods_were_tested_on_the_same_rows(found):
    sizes = found.results.groupby("seed")[["n_test", "n_train"]].nunique()
    assert (sizes == 1).all().all()
    positives = found.results.assign(positives=found.results["tp"] + found.results["fn"])
    assert (positives.groupby("seed")["positives"].nunique() == 1).all()


def test_outcomes_reproduce_the_costs_of_the_cells(found):
    for method, ratio in (("adacsl", 20.0), ("mine", 5.0), ("always-positive", 20.0)):
        outcome = found.outcome(method, ratio=ratio)
        cells = found.results.query("method == @method and ratio == @ratio")
        assert outcome.costs.total(outcome.labels, outcome.decisions) == pytest.approx(cells["total_cost"].sum())


def test_the_verdict_is_words_and_a_method(found):
    assert found.best in set(found.results["method"]) | {None}
    assert "ratio 5:" in found.verdict
    assert "ratio 20:" in str(found)


def test_histories_tell_lambda_by_epoch(found):
    history = found.history("adacsl", ratio=5)
    assert len(history) == 3 * 2
    assert {"seed", "epoch", "lambda", "threshold", "val_cost", "train_cost"} <= set(history)


def test_pictures_are_figures(found):
    for figure in (
        found.plot_costs(), found.plot_ratios(), found.plot_threshold(), found.plot_lambda(), found.plot_history(),
        found.plot_calibration("ce", "adacsl"),
    ):  # fmt: skip
        assert len(figure.data) > 0
    with pytest.raises(ValueError, match="no ranks to draw"):
        found.plot_ranks()


def test_the_report_is_one_page(found, tmp_path):
    path = found.report(tmp_path / "report.html")
    text = path.read_text()
    assert "<html" in text
    assert "ce-bayes" in text


def test_a_notebook_shows_verdict_and_table_without_markup_of_the_users(found):
    import dataclasses

    odd = found.results.assign(method=found.results["method"].replace({"mine": "<script>alert(1)</script>"}))
    page = dataclasses.replace(found, results=odd)._repr_html_()
    assert "<table" in page
    assert "<script>" not in page


def test_a_comparison_is_read_again_from_its_folder(found):
    again = load_comparison(found.folder)
    assert again.verdict == found.verdict
    pd.testing.assert_frame_equal(again.table, found.table)


def test_started_again_nothing_runs_twice_and_more_can_be_added(found):
    x, y = table()
    options = {"positive": "sick", "ratios": ["1x", 20], "folder": found.folder} | QUICK
    before = {path: path.stat().st_mtime_ns for path in found.folder.glob("cells/*/*/*.json")}
    again = compare(x, y, CostMatrix(fp=1, fn=5), methods=["ce", "always-negative"], seeds=3, **options)
    assert set(again.results["method"]) == {"ce", "always-negative"}
    after = {path: path.stat().st_mtime_ns for path in found.folder.glob("cells/*/*/*.json")}
    assert all(after[path] == when for path, when in before.items())
    assert len(after) == len(before) + 6


def test_a_folder_of_other_data_is_refused(found):
    x, y = table(seed=1)
    with pytest.raises(StoreError, match="other data or settings"):
        compare(x, y, CostMatrix(fp=1, fn=5), positive="sick", methods=["ce"], seeds=1, folder=found.folder, **QUICK)


class Fails(ClassifierMixin, BaseEstimator):
    def fit(self, x, y):
        raise RuntimeError("no such luck")

    def predict_proba(self, x):
        raise NotImplementedError


def test_what_fails_is_named_and_the_others_are_compared():
    x, y = table()
    methods = ["always-positive", "always-negative", Recipe("fails", learner=Fails())]
    with pytest.warns(UserWarning, match="2 cells failed"):
        found = compare(x, y, positive="sick", methods=methods, seeds=2, **QUICK)
    assert set(found.failures["method"]) == {"fails"}
    assert "no such luck" in found.failures["message"].iloc[0]
    assert set(found.table["method"]) == {"always-positive", "always-negative"}


def test_when_all_fail_the_first_error_is_told():
    x, y = table()
    with pytest.raises(RuntimeError, match="no method came to an end: no such luck"):
        compare(x, y, positive="sick", methods=[Recipe("fails", learner=Fails())], seeds=1, **QUICK)


def test_rows_with_costs_of_their_own_at_two_ratios():
    x, y = table()
    amounts = np.random.default_rng(0).uniform(1, 30, len(x))
    costs = CostMatrix(fp=2.0, fn=amounts)
    found = compare(
        x, y, costs, positive="sick", methods=["ce-bayes", "gbm-weighted"], ratios=["1x", "4x"], seeds=2, **QUICK
    )
    for method in ("ce-bayes", "gbm-weighted"):
        for ratio in sorted(found.results["ratio"].unique()):
            outcome = found.outcome(method, ratio=ratio)
            cells = found.results.query("method == @method and ratio == @ratio")
            assert outcome.own_costs
            assert outcome.threshold is None
            assert outcome.costs.total(outcome.labels, outcome.decisions) == pytest.approx(cells["total_cost"].sum())


def test_groups_never_stand_on_both_sides():
    x, y = table()
    groups = np.repeat(np.arange(60), 4)
    task = make_task(x, y, positive="sick", groups=groups)
    for seed in range(3):
        split = make_split(task, Protocol(), seed)
        parts = [set(groups[rows]) for rows in split]
        assert not parts[0] & parts[1]
        assert not parts[0] & parts[2]
        assert not parts[1] & parts[2]
        assert sorted(np.concatenate(split)) == list(range(240))


def test_splits_are_65_15_20_stratified_and_the_same_each_time():
    x, y = table(1000)
    task = make_task(x, y, positive="sick")
    split = make_split(task, Protocol(), 3)
    assert [len(rows) for rows in split] == pytest.approx([650, 150, 200], abs=2)
    assert [task.y[rows].mean() for rows in split] == pytest.approx([task.y.mean()] * 3, abs=0.01)
    again = make_split(task, Protocol(), 3)
    assert all(np.array_equal(a, b) for a, b in zip(split, again, strict=True))


def test_several_data_sets_get_ranks_and_one_verdict_for_all():
    tasks = [make_task(*table(seed=s), CostMatrix(fp=1, fn=5), positive="sick", name=f"made-{s}") for s in (1, 2)]
    found = compare_tasks(tasks, methods=["always-positive", "ce-bayes", "gbm-bayes"], seeds=2, **QUICK)
    assert len(found.verdicts) == 2
    assert "Over all data" in found.verdict
    assert len(found.plot_ranks().data) > 0


@pytest.mark.parametrize("kind", ["numpy", "polars"])
def test_tables_of_any_kind(kind):
    x, y = table()
    if kind == "polars":
        polars = pytest.importorskip("polars")
        x = polars.from_pandas(x)
    else:
        x = x[["a", "b", "c"]].to_numpy()
    found = compare(x, y == "sick", CostMatrix(fp=1, fn=5), methods=["gbm-bayes", "ce"], seeds=1, **QUICK)
    assert "One split only" in found.verdict


def test_images_leave_out_what_needs_columns():
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 255, (40, 12, 12, 3)).astype(np.uint8), np.arange(40) % 2
    found = compare(
        x,
        y,
        CostMatrix(fp=1, fn=2),
        methods=["ce-bayes", "always-positive"],
        seeds=1,
        workers=1,
        epochs=1,
        progress=False,
        device="cpu",
    )
    assert set(found.table["method"]) == {"ce-bayes", "always-positive"}


@pytest.mark.parametrize("ratio", [0, -1, "x", "3y", float("nan"), "inf"])
def test_a_ratio_is_a_positive_number(ratio):
    with pytest.raises(ValueError, match="a ratio is a positive number"):
        choose_ratios(CostMatrix(fp=1, fn=8), [ratio])


def test_a_ratio_is_not_named_twice():
    with pytest.raises(ValueError, match="different numbers"):
        choose_ratios(CostMatrix(fp=1, fn=8), ["1x", 8])


@pytest.mark.parametrize(
    ("options", "message"), [({"seeds": 0}, "seeds must be"), ({"seeds": [1, 1]}, "seeds must be")]
)
def test_seeds_are_checked(options, message):
    x, y = table()
    with pytest.raises(ValueError, match=message):
        compare(x, y, positive="sick", methods=["ce"], **options, **QUICK)


def test_tasks_need_names_of_their_own():
    task = make_task(*table(), positive="sick")
    with pytest.raises(ValueError, match="different names"):
        compare_tasks([task, task], methods=["ce"], **QUICK)
    with pytest.raises(ValueError, match="no data"):
        compare_tasks([], methods=["ce"], **QUICK)


@pytest.mark.parametrize("n", [300, 60_000])
def test_small_nets_of_all_methods_are_one_job_and_large_ones_several(n):
    task = make_task(*table(n), positive="sick")
    jobs = plan_jobs([task], {task.name: choose_recipes()}, {task.name: [5.0, 9.0]}, [0], Protocol(device="cpu"))
    cells = [cell for job in jobs for cell in job.cells]
    assert len(cells) == len(set(cells)) == 2 * len(RECIPES)
    trainings = [
        {Training.of(RECIPES[cell.method], cell.ratio) for cell in job.cells if RECIPES[cell.method].learner == "net"}
        for job in jobs
    ]
    nets = [sum(training.members for training in group) for group in trainings if group]
    assert len(nets) == 1 if n == 300 else max(nets) == 6
    # no training in two jobs
    assert sum(len(group) for group in trainings) == len(set().union(*trainings))


def test_an_unknown_option_is_named():
    x, y = table()
    with pytest.raises(TypeError, match="compare has no option 'epoch'; those of the protocol are test, validation"):
        compare(x, y, positive="sick", methods=["ce"], epoch=3)
