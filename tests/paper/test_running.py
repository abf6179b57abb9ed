"""The paper's experiments: what is planned, that nothing is lost or run twice, and what the tables say."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch.nn import functional as F

from adacsl import CostMatrix, Task
from adacsl.comparison import jobs as package
from adacsl.comparison.fits import FitResult
from adacsl.comparison.protocol import split_rows
from adacsl.comparison.runner import RunInterrupted
from adacsl.comparison.store import Store, StoreError
from adacsl.datasets import DataError
from adacsl.torch.resnet import normalise, resnet18
from paper import embedding, planning, running
from paper.embedding import as_features
from paper.methods import CHOICES, MODERN_METHODS, PAPER_METHODS, PROFILES, protocol_identity, shifted_loss, under
from paper.options import Options
from paper.planning import estimate, plan, settings_of
from paper.running import chosen_rows, prepare, reproduce
from paper.sheets import COLUMNS, Sheet, read_results, read_rows
from paper.sources import SOURCES, find_source, made_task

ROOT = Path(__file__).resolve().parents[2]
QUICK = Options("table2", quick=True, device="cpu", n_jobs=1)


@pytest.fixture
def without_training(monkeypatch):
    """Results at once instead of trainings; records which fits were asked for."""
    ran = []

    def work(tasks, payload, fits, *, parts=None):
        for fit in fits:
            ran.append(fit)
            assert fit.data in tasks
            metrics = {"total_cost": 40.0 + fit.seed, "cost": 0.5, "accuracy": 0.75, "epoch": 1.0}
            metrics["validation_cost"] = 0.45
            history = [{"epoch": 0, "fold": 0, "lambda": 1.0, "threshold": 0.4, "train_cost": 0.3, "val_cost": 0.4}]
            scores = np.zeros(2, np.float32)
            yield FitResult(fit, metrics, scores, scores > 0.5, 0.5, history, 1.5)

    monkeypatch.setattr(package, "run_work", work)
    return ran


# profiles


def test_profile_paper_is_the_published_protocol():
    protocol = PROFILES["paper"].conditions(upright=False, weights="w.safetensors", device="cpu")
    assert (protocol.test, protocol.validation, protocol.device) == (0.20, 0.15, "cpu")
    settings = protocol.neural.changed()
    optimizer = settings.pop("optimizer")([torch.nn.Parameter(torch.zeros(1))], lr=0.01)
    assert settings == {
        "epochs": 20, "batch_size": 64, "learning_rate": 0.01, "schedule": "constant", "augment": False,
        "image_size": 50,
        "weights": "w.safetensors",
    }  # fmt: skip
    assert type(optimizer) is torch.optim.SGD
    (group,) = optimizer.param_groups
    assert (group["weight_decay"], group["momentum"], group["nesterov"]) == (0.01, 0, False)
    assert list(PAPER_METHODS) == ["net", "ta", "net-smote", "net-weighted", "adacsl"]
    assert PROFILES["paper"].splits == ("random", "patient")
    ce, smote = PAPER_METHODS["net"], PAPER_METHODS["net-smote"]
    assert (ce.decide, smote.decide, smote.resample) == ("half", "raw", "smote")
    assert PAPER_METHODS["ta"].loss is shifted_loss
    for method in PAPER_METHODS.values():
        assert method.target_threshold in (None, 0.5)  # None is 0.5, of two classes
        assert (method.select, method.cv) == ("best", None)


def test_the_identity_is_the_same_in_every_process_and_wherever_the_weights_lie():
    identities = []
    for folder in ("/here", "/there"):
        conditions = PROFILES["paper"].conditions(upright=False, weights=f"{folder}/w.safetensors", device="cpu")
        identities.append(json.dumps(protocol_identity(conditions)))
    assert identities[0] == identities[1]
    assert "w.safetensors" in identities[0]
    assert "SGD" in identities[0]
    assert " at 0x" not in identities[0]


def test_threshold_adjustment_trains_through_the_shifted_probability():
    logits, labels = torch.linspace(-4, 4, 9).double(), torch.tensor([0.0, 1, 0, 1, 0, 1, 0, 1, 1]).double()
    p, t = torch.sigmoid(logits), 1 / 9
    shifted = p / (p + t / (1 - t) * (1 - p))
    both = torch.stack([1 - shifted, shifted], dim=1)
    expected = F.cross_entropy(both, labels.long(), reduction="none")
    torch.testing.assert_close(shifted_loss(logits, labels, CostMatrix(fp=1, fn=8)), expected)


def test_profile_modern_has_stronger_baselines_and_turns_lesions_only():
    modern = PROFILES["modern"]
    lesions = modern.conditions(upright=False, weights=None, device="cpu")
    assert lesions.neural.augment.rotate
    assert lesions.neural.image_size == 64
    assert not {"schedule", "views"} & set(lesions.neural.changed())  # the package's own: cosine, one view
    plain = lesions.identity()["neural"]
    others = {name: PROFILES[name].conditions(upright=False, weights=None, device="cpu") for name in PROFILES}
    assert others["four-views"].identity()["neural"] == plain | {"views": 4}
    assert others["enlarged"].identity()["neural"] == plain | {"views": 4, "image_size": 128}
    assert modern.conditions(upright=True, weights=None, device="cpu").neural.augment is True
    assert modern.splits == ("random", "group", "patient")
    assert {"net-bayes", "net-tuned", "net-calibrated", "adacsl-target-bayes", "net-weighted-cv"} <= set(MODERN_METHODS)


def test_a_network_of_its_own_is_trained_as_all_others():
    protocol = PROFILES["modern"].conditions(upright=True, weights=None, device="cpu")
    made = under(planning.ABLATIONS["every"]["adacsl-every-25"], protocol).learner
    assert (made.every, made.epochs, made.batch_size, made.learning_rate, made.image_size) == (25, 15, 128, 4e-4, 64)
    assert under(PAPER_METHODS["net-weighted"], protocol) is PAPER_METHODS["net-weighted"]


@pytest.mark.parametrize("name", ["ham10k", "HAM10K", "ham10000", "pvd", "pv-d", "PV-D", "idc", "rffd"])
def test_data_sets_go_by_several_names(name):
    assert find_source(name).name in SOURCES


# the plan


def full_plan(what="all", **options):
    """The plan on synthetic images, without loading anything."""
    options = Options(what, **options)
    tasks = {"HAM10K": replace(made_task(), name="HAM10K")}
    settings = settings_of(options, [SOURCES["HAM10K"]], None)
    return plan(options, settings, tasks, set())


def test_networks_are_counted_once_for_all_that_share_them():
    counts = {(e.sheet, e.data): e for e in estimate(full_plan(seeds=2))}
    # CE and SMOTE serve all k; TA, WCE and AdaCSL are trained for each
    assert counts["table2", "ham10k.paper.random"].networks == 2 * (1 + 3 + 1 + 3 + 3)
    # CE; WCE, focal, AdaCSL with three T' for each k; five folds of CE once, of WCE and AdaCSL (four ways) for each k
    assert counts["table2", "ham10k.modern.random"].networks == 2 * (1 + 3 * 5 + 5 + 3 * 25)
    assert counts["table2", "ham10k.modern.random"].networks == counts["table2", "ham10k.modern.group"].networks
    assert counts["ablations", "ham10k.modern.random"].networks == 2 * 3 * 7
    assert counts["ablations", "ham10k.modern.random.validation-0.05"].networks == 2 * (1 + 3)
    assert counts["table2", "ham10k.paper.random"].fits == 2 * 5 * 3


def test_larger_images_are_expected_to_take_longer_and_smaller_ones_no_less():
    plans = {name: full_plan("table2", profile=(name,), splits=("random",), seeds=1) for name in PROFILES}
    each = {name: e.seconds / e.networks for name, plan in plans.items() for e in estimate(plan) if e.networks}
    assert each["enlarged"] == pytest.approx(4 * each["modern"])
    assert each["paper"] / 20 == pytest.approx(each["modern"] / 15)  # by epochs alone


# methods that choose among others


def test_a_choice_takes_the_least_held_out_cost():
    among = CHOICES[1].among
    about = {"dataset": "PV-D", "profile": "modern", "split": "random", "k": 3, "seed": 0}
    rows = [about | {"method": name, "cost": 10.0 * n, "seconds": 1.5} for n, name in enumerate(among)]
    held_out = [
        about | {"method": name, "validation_cost": cost} for name, cost in zip(among, (0.3, 0.2, 0.4), strict=True)
    ]
    (row,) = chosen_rows(rows, held_out)
    assert row == rows[1] | {"method": "adacsl-cv-auto", "seconds": 4.5}
    # of equals the first; the test cost does not count
    held_out[0]["validation_cost"] = 0.2
    rows[0]["cost"] = 99.0
    assert next(chosen_rows(rows, held_out))["cost"] == 99.0
    # not before all of them are there, and never from another run
    assert list(chosen_rows(rows[:2], held_out)) == []
    assert list(chosen_rows(rows, held_out[:2])) == []
    assert list(chosen_rows([*rows[:2], rows[2] | {"seed": 1}], held_out)) == []


def test_recorded_held_out_costs_would_rather_not_adapt_on_leaves(monkeypatch):
    # what docs/guide/train/adaptation.md says; the choices themselves stay as they were published
    result = read_results(ROOT / "docs/paper/results")
    names = ("net-bayes-cv", *CHOICES[1].among)
    monkeypatch.setattr(running, "CHOICES", (*CHOICES, CHOICES[1]._replace(name="four", among=names)))
    rows = list(chosen_rows(result["table2"], result["held_out"]))
    plain = {(r["dataset"], r["k"], r["seed"]): r["cost"] for r in result["table2"] if r["method"] == names[0]
             and r["profile"] == "four-views"}  # fmt: skip
    three, four = (
        {
            (r["dataset"], r["k"], r["seed"]): r["cost"]
            for r in rows
            if (r["method"], r["profile"]) == (name, "four-views")
        }
        for name in (CHOICES[1].name, "four")
    )
    taken = [run for run in four if four[run] == plain[run]]
    assert [name for name, _, _ in four].count("PV-D") == 6
    assert [name for name, _, _ in taken] == ["PV-D"] * 5
    assert all(four[run] < three[run] for run in taken)


def test_a_choice_is_run_by_running_what_it_chooses_among():
    options = {"what": "table2", "profile": ("modern",), "splits": ("random",), "seeds": 1}
    planned = full_plan(**options, methods=("adacsl-cv-auto",))
    assert {fit.method for fit in planned.places} == set(CHOICES[1].among)
    order = PROFILES["modern"].order
    assert all(order.index(choice.name) > order.index(name) for choice in CHOICES for name in choice.among)
    assert len(order) == len(set(order))


def test_choices_are_rows_like_others(tmp_path, monkeypatch, without_training):
    monkeypatch.setitem(planning.QUICK_METHODS, ("table2", "modern"), CHOICES[0].among)
    options = replace(QUICK, out=tmp_path, profile=("modern",))
    result = reproduce(options)
    rows = read_rows(tmp_path / "table2.csv")
    assert result.done == result.total == 3 * 2 * 2
    assert len(rows) == 4 * 2 * 2
    assert [row["seconds"] for row in rows if row["method"] == "adacsl-auto"] == [4.5] * 4
    held_out = read_rows(tmp_path / "held_out.csv")
    assert {row["validation_cost"] for row in held_out} == {0.45}
    # taken over from the files, they are there again and nothing is run
    again = reproduce(replace(options, out=tmp_path / "again", skip_done=(tmp_path,)))
    assert again.total == 0
    assert (tmp_path / "again/table2.csv").read_bytes() == (tmp_path / "table2.csv").read_bytes()


# methods that need columns


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A backbone that has seen nothing."""
    path = tmp_path_factory.mktemp("weights") / "net.safetensors"
    torch.manual_seed(0)
    save_file(resnet18().state_dict(), path)
    return str(path)


def test_features_are_those_of_the_network_before_training(weights, monkeypatch):
    task = made_task(30)
    monkeypatch.setattr(embedding, "BATCH", 8)
    monkeypatch.setattr(embedding, "SIDE", 32)
    result = as_features(task, weights, device="cpu")
    net = resnet18(weights=weights).eval()
    with torch.no_grad():
        pixels = torch.from_numpy(task.X).permute(0, 3, 1, 2)
        large = F.interpolate(normalise(pixels), size=(embedding.SIDE,) * 2, mode="bilinear")
        expected = net.features(large).numpy()
    np.testing.assert_allclose(result.X.to_numpy(), expected, rtol=1e-4, atol=1e-5)
    assert (result.y == task.y).all()
    assert result.costs == task.costs
    assert not result.images


def test_methods_for_tables_get_features_on_the_same_splits(weights, monkeypatch):
    monkeypatch.setattr(embedding, "SIDE", 32)
    tasks = {"HAM10K": replace(made_task(), name="HAM10K")}
    options = Options("table2", seeds=1, factors=(1, 5), methods=("gbm-bayes", "adacsl"), profile=("modern",))
    settings = settings_of(options, [SOURCES["HAM10K"]], weights)
    planned = plan(options, settings, tasks, set())
    of_features = [setting for setting in settings if setting.tag == "features"]
    assert [setting.split for setting in of_features] == ["random", "group"]
    assert {name for setting in of_features for name in setting.methods} == {"gbm-bayes"}
    assert sum(e.networks for e in estimate(planned)) == 2 * 2  # AdaCSL for each k and split
    ready = running.with_features(planned, tasks, "cpu")
    for setting in of_features:
        plain = setting.data.removesuffix(".features")
        assert ready[setting.data].X.shape == (120, 512)
        assert ready[plain].images
        tests = [split_rows(ready[name], 0.2, 0)[1].tolist() for name in (setting.data, plain)]
        assert tests[0] == tests[1]
    split = of_features[0].data
    jobs = [job for job in planned.jobs if (job.fits[0].data, job.fits[0].method) == (split, "gbm-bayes")]
    results = [one for job in jobs for one in package.run_work(ready, job.payload, job.fits)]
    rows = [running.row_of(one, *planned.places[one.fit]) for one in results]
    assert [row["k"] for row in rows] == [1, 5]
    assert {(row["method"], row["epoch"]) for row in rows} == {("gbm-bayes", "")}
    assert all(0 <= row["normalized_cost"] <= 2.5 for row in rows)


def test_without_weights_there_are_no_features():
    settings = settings_of(Options("table2"), [SOURCES["HAM10K"]], None)
    assert not [setting for setting in settings if setting.tag]


def test_whole_seeds_come_first_and_long_jobs_before_short_ones():
    jobs = full_plan("table2", seeds=3).jobs
    seeds = [job.fits[0].seed for job in jobs]
    assert seeds == sorted(seeds)
    nets = [planning.count_networks(job) for job in jobs if job.fits[0].seed == 0]
    assert nets == sorted(nets, reverse=True)


def test_figure_one_alone_needs_adacsl_only():
    planned = full_plan("figure1", seeds=1)
    assert {fit.method for fit in planned.places} == {"adacsl"}
    assert {setting.split for setting, _ in planned.places.values()} == {"random"}
    # the fits are those of Table 2: nothing is run twice
    assert set(planned.places) <= set(full_plan("table2", seeds=1).places)


def test_profiles_test_on_the_same_images():
    planned = full_plan("table2", seeds=1)
    tests = [
        split_rows(planned.tasks[setting.data], setting.protocol.test, 0)[1].tolist()
        for setting, _ in planned.places.values()
        if setting.split == "random"
    ]
    assert all(rows == tests[0] for rows in tests)


def test_costs_are_inverse_priors_times_k():
    planned = full_plan("table2", seeds=1)
    task = next(iter(planned.tasks.values()))
    assert task.costs == CostMatrix.balanced(task.y)
    ratios = {k: fit.ratio for fit, (_, k) in planned.places.items()}
    assert ratios == {1: 3.0, 3: 9.0, 5: 15.0}  # one synthetic image in four is positive


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"what": "table3"}, "there is no 'table3' here: take one of table1, table2, figure1, ablations, all"),
        ({"profile": ("old",)}, "profile must be some of paper, modern"),
        ({"splits": ("time",)}, "splits must be some of random, group"),
        ({"seeds": 0}, "seeds must be at least 1, got 0"),
        ({"time_limit": -1.0}, "the time limit must be a number of seconds from 0, got -1"),
        ({"time_limit": float("nan")}, "the time limit must be a number of seconds from 0, got nan"),
        ({"n_jobs": 0}, "n_jobs must be at least 1, got 0"),
        ({"factors": (0,)}, "factors k of the costs must be numbers from 1"),
        ({"methods": ("adaboost",)}, "there is no method 'adaboost' here; known: adacsl"),
    ],
)
def test_options_that_make_no_sense_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Options(**{"what": "all"} | wrong)


def test_data_that_are_not_there_are_named(tmp_path):
    with pytest.raises(DataError, match=r"there is no IDC in .* expected a folder idc with <patient>/0/"):
        prepare(Options("all", data=tmp_path, datasets=("idc",), weights=_file(tmp_path)))
    with pytest.raises(DataError, match=r"there is no file .*absent of weights"):
        prepare(Options("all", data=tmp_path, datasets=("idc",), weights=tmp_path / "absent"))


def _file(folder):
    path = folder / "weights.safetensors"
    path.touch()
    return path


def test_networks_without_imagenet_weights_are_warned_of(tmp_path):
    with pytest.warns(UserWarning, match="no ImageNet weights were found"), pytest.raises(DataError):
        prepare(Options("all", data=tmp_path, datasets=("idc",)))


def test_data_without_groups_cannot_be_split_by_group():
    options = Options("table2", seeds=1)
    task = replace(made_task(), name="HAM10K", groups=None)
    with pytest.raises(DataError, match="HAM10K has no groups here"):
        plan(options, settings_of(options, [SOURCES["HAM10K"]], None), {"HAM10K": task}, set())


# running


def test_every_run_is_a_row(tmp_path, without_training):
    result = reproduce(replace(QUICK, out=tmp_path), command="reproduce table2 --quick")
    rows = read_rows(tmp_path / "table2.csv")
    with (tmp_path / "table2.csv").open() as file:
        header = next(csv.reader(file))
    assert ",".join(header) == "dataset,profile,split,k,method,seed,cost,normalized_cost,accuracy,epoch,seconds"
    assert header == list(COLUMNS)
    assert len(rows) == result.done == result.total == len(without_training) == 36
    assert {row["method"] for row in rows if row["profile"] == "paper"} == set(PAPER_METHODS)
    assert {row["k"] for row in rows} == {1, 5}
    first = next(row for row in rows if row["seed"] == 1)
    assert (first["cost"], first["normalized_cost"], first["seconds"]) == (41.0, 0.5, 1.5)
    epochs = read_rows(tmp_path / "figure1.csv")
    assert {row["method"] for row in epochs} == {"adacsl"}
    assert len(epochs) == 2 * 2 * 2
    (call,) = json.loads((tmp_path / "about.json").read_text())
    assert call["command"] == "reproduce table2 --quick"
    assert call["device"] == "cpu"


def test_the_gpu_is_asked_for_its_name_before_any_worker_may_be_cut_off(tmp_path, without_training, monkeypatch):
    def name():
        if without_training:
            raise RuntimeError("MPS server is not ready to accept new MPS client requests")
        return "NVIDIA H200"

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", name)
    reproduce(replace(QUICK, out=tmp_path, device="cuda"))
    (call,) = json.loads((tmp_path / "about.json").read_text())
    assert without_training
    assert call["device"] == "NVIDIA H200"


def test_a_damaged_list_of_calls_is_refused_before_anything_runs(tmp_path, without_training):
    (tmp_path / "about.json").write_text("{")
    with pytest.raises(DataError, match=r"about.json is no list of earlier calls \(.+\): move it away"):
        reproduce(replace(QUICK, out=tmp_path))
    assert without_training == []


def test_networks_of_unfinished_jobs_are_kept_beside_the_results(tmp_path, monkeypatch, without_training):
    good, places = package.run_work, set()

    def work(tasks, payload, fits, *, parts):
        places.add(parts.folder)
        return good(tasks, payload, fits)

    monkeypatch.setattr(package, "run_work", work)
    reproduce(replace(QUICK, out=tmp_path))
    assert places == {tmp_path / "store" / "parts"}


def test_started_again_nothing_runs_twice(tmp_path, without_training):
    reproduce(replace(QUICK, out=tmp_path))
    before = (tmp_path / "table2.csv").read_bytes()
    without_training.clear()
    result = reproduce(replace(QUICK, out=tmp_path))
    assert without_training == []
    assert result.done == 0
    assert (tmp_path / "table2.csv").read_bytes() == before


def test_results_of_another_machine_are_taken_over_and_not_run_again(tmp_path, without_training):
    reproduce(replace(QUICK, out=tmp_path / "a", profile=("paper",)))
    without_training.clear()
    options = replace(QUICK, out=tmp_path / "b", skip_done=(tmp_path / "a",))
    result = reproduce(options, command="second")
    assert {fit.data for fit in without_training} == {"made-up.modern.random"}
    assert result.total == 16
    assert len(read_rows(tmp_path / "b/table2.csv")) == 36
    assert len(read_rows(tmp_path / "b/figure1.csv")) == 8
    assert len(json.loads((tmp_path / "b/about.json").read_text())) == 2
    # a single file does as well
    options = replace(QUICK, out=tmp_path / "c", skip_done=(tmp_path / "b/table2.csv",))
    without_training.clear()
    assert reproduce(options).total == 0
    assert without_training == []


def test_a_run_that_is_cut_off_leaves_whole_rows(tmp_path, without_training):
    options = replace(QUICK, out=tmp_path / "out", export=tmp_path / "csv", time_limit=0.0)
    result = reproduce(options)
    assert result.stopped
    rows = read_rows(tmp_path / "csv/table2.csv")
    assert 1 <= len(rows) < 36
    assert not (tmp_path / "out/table2.csv").exists()
    # without the store, from the CSV alone
    rest = reproduce(replace(QUICK, out=tmp_path / "other", skip_done=(tmp_path / "csv",)))
    assert rest.total == 36 - len(rows)
    assert len(read_rows(tmp_path / "other/table2.csv")) == 36


def test_what_a_job_had_done_before_it_was_cut_off_is_not_lost(tmp_path, monkeypatch, without_training):
    def run(jobs, store, tasks, **settings):
        first = jobs[0]
        store.write(next(package.run_work(tasks, first.payload, first.fits)))  # its worker never got to report it
        raise RunInterrupted(0, 36)

    monkeypatch.setattr(running, "run_jobs", run)
    result = reproduce(replace(QUICK, out=tmp_path, time_limit=0.0))
    assert result.stopped
    assert result.done == len(read_rows(tmp_path / "table2.csv")) == 1
    with pytest.raises(RunInterrupted):  # Ctrl-C is raised, not taken for the time limit
        reproduce(replace(QUICK, out=tmp_path / "other", time_limit=1e6))


def test_rows_are_on_disk_as_soon_as_they_are_there(tmp_path, without_training):
    seen = []

    def note(event):
        if event.kind == "done":
            seen.append(len(read_rows(tmp_path / "table2.csv")))

    reproduce(replace(QUICK, out=tmp_path), on_event=note)
    assert seen == list(range(1, 37))


def test_a_failed_fit_is_reported_and_costs_no_other(tmp_path, monkeypatch, without_training):
    good = package.run_work

    def work(tasks, payload, fits, *, parts=None):
        if any(fit.method == "ta" for fit in fits):
            raise RuntimeError("out of memory")
        return good(tasks, payload, fits)

    monkeypatch.setattr(package, "run_work", work)
    result = reproduce(replace(QUICK, out=tmp_path))
    assert len(result.failed) == 4
    assert "out of memory" in result.failed[0]
    assert result.done == 32


def test_other_settings_need_another_folder(tmp_path, without_training):
    reproduce(replace(QUICK, out=tmp_path))
    planned, _ = prepare(QUICK)
    (first, *_), *_ = planned.places.values()
    assert first.protocol.neural.epochs == 2
    other = running.identity_of(planned, quick=False)
    with pytest.raises(StoreError, match="other data or settings"):
        Store.open(tmp_path / "store", other)


def test_table_one_runs_once_for_each_seed(tmp_path):
    options = replace(QUICK, what="table1", out=tmp_path)
    reproduce(options)
    rows = read_rows(tmp_path / "table1.csv")
    assert {row["seed"] for row in rows} == {0, 1}
    for seed in (0, 1):
        assert sum(row["size"] for row in rows if row["seed"] == seed) == 12
    before = (tmp_path / "table1.csv").read_bytes()
    reproduce(options)
    assert (tmp_path / "table1.csv").read_bytes() == before


# CSV files


def test_sheets_keep_the_first_of_equal_rows(tmp_path):
    sheet = Sheet(tmp_path / "s.csv", ("name", "seed", "cost"), key=("name", "seed"))
    sheet.add({"name": "b", "seed": 1, "cost": 0.5})
    sheet.add({"name": "b", "seed": 1, "cost": 0.7})
    sheet.add({"name": "a", "seed": 10, "cost": 1e-9})
    sheet.add({"name": "a", "seed": 9, "cost": 1e9})
    assert [row["name"] for row in read_rows(sheet.path)] == ["b", "a", "a"]
    sheet.write()
    assert [(row["name"], row["seed"], row["cost"]) for row in read_rows(sheet.path)] == [
        ("a", 9, 1e9),
        ("a", 10, 1e-9),
        ("b", 1, 0.5),
    ]


def test_files_that_are_not_ours_are_refused(tmp_path):
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"other.csv holds no results of this command: its columns are a, b"):
        read_results(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"there is no file or folder .*absent"):
        read_results(tmp_path / "absent")


# real data


@pytest.mark.data
def test_the_real_data_are_found():
    shared = ROOT.parent / "shared" / "data"
    if not shared.is_dir():
        pytest.skip("the data sets are not here: name their folder in ADACSL_DATA")
    planned, tasks = prepare(Options("table2", data=shared, seeds=1, datasets=("ham10k",)))
    assert set(tasks) == {"HAM10K"}
    assert all(isinstance(task, Task) and task.X.shape[1:] == (64, 64, 3) for task in tasks.values())
    assert {setting.protocol.neural.weights is not None for setting, _ in planned.places.values()} == {True}
    total = sum(e.networks for e in estimate(planned))
    assert total == 11 + 96 + 96


# leaving one patient out


def patients_task():
    """Five patients of IDC, the last with one class only."""
    rng = np.random.default_rng(0)
    groups = np.repeat(["p1", "p2", "p3", "p4", "p5"], [30, 20, 24, 26, 40])
    y = np.where(groups == "p5", 1, np.arange(len(groups)) % 2)
    pixels = rng.integers(0, 256, (len(y), 8, 8, 3)).astype(np.uint8)
    return Task("IDC", pixels, y, CostMatrix.balanced(y), groups=groups)


def test_each_split_tests_all_images_of_one_patient_with_both_classes():
    options = Options("table2", splits=("patient",), profile=("modern",), factors=(1, 3), seeds=9)
    settings = settings_of(options, [SOURCES["RFFD"], SOURCES["IDC"]], None)
    assert {(s.dataset, s.split) for s in settings} == {("IDC", "patient")}  # others have no patients
    planned = plan(options, settings, {"IDC": patients_task()}, set())
    (setting,) = {setting.data: setting for setting, _ in planned.places.values()}.values()
    task = planned.tasks[setting.data]
    assert set(task.groups) == {"p1", "p2", "p3", "p4"}
    assert task.costs == CostMatrix.balanced(task.y)
    assert {fit.seed for job in planned.jobs for fit in job.fits} == {0, 1, 2, 3}
    for seed in range(4):
        rest, test = setting.protocol.split(task, seed)
        assert set(task.groups[test]) == {f"p{seed + 1}"}
        assert set(task.groups[rest]).isdisjoint(task.groups[test])
        assert len(rest) + len(test) == len(task.y)
        rows = setting.protocol.rows(task, rest)
        for train, held in rows.folds(3, setting.protocol.inner_validation, seed):
            assert set(task.groups[train]).isdisjoint(task.groups[held])
    crossed = [method for job in planned.jobs for method in job.payload[0].values() if method.cv]
    assert {method.cv for method in crossed} == {3}  # five folds of three patients are impossible


def test_one_patient_cannot_be_left_out_of_two():
    task = patients_task()
    two = np.isin(task.groups, ["p1", "p2"])
    small = replace(task, X=task.X[two], y=task.y[two], groups=task.groups[two])
    options = Options("table2", splits=("patient",), profile=("paper",))
    settings = settings_of(options, [SOURCES["IDC"]], None)
    with pytest.raises(DataError, match="2 patients with both classes: leaving one out needs at least 3"):
        plan(options, settings, {"IDC": small}, set())
