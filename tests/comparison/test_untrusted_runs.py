"""A run folder that others could write to: nothing in it runs code, leads out of it, or is taken for a result."""

import errno
import hashlib
import inspect
import json
import os
import pickle
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from adacsl import CostMatrix, compare, load_comparison
from adacsl.comparison import store as comparison_store
from adacsl.comparison.jobs import Parts
from adacsl.comparison.runner import run
from adacsl.comparison.store import Store, StoreError, result_from_json
from adacsl.execution import processes, worker
from adacsl.storage import atomic

pytestmark = pytest.mark.filterwarnings("ignore:.* was damaged")

COSTS = CostMatrix(fp=1, fn=5)
FIT_PATH = "fits/data/logistic/ratio-5_seed-1.json"
SPLIT = "splits/data_seed-1.json"


def table(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(60, 2))
    return x, (x[:, 0] + rng.normal(size=60) > 0.5).astype(int)


def compared(folder, seed=0, **changes):
    options = {"methods": ["always-positive", "logistic"], "repeats": 1, "folds": 2, "n_jobs": 1, "progress": False}
    return compare(*table(seed), COSTS, folder=folder, **(options | changes))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    compared(folder, segments={"half": np.arange(60) < 30})
    return folder


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """The same names, other rows."""
    folder = tmp_path_factory.mktemp("runs") / "foreign"
    compared(folder, seed=1)
    return folder


@pytest.fixture
def folder(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


def forge(path, change):
    """Change a document and make its digest fit again, without the code under test."""
    body = json.loads(path.read_bytes())
    change(body)
    del body["sha256"]
    text = "{\n" + "".join(f"{json.dumps(key)}: {json.dumps(value)},\n" for key, value in body.items())
    path.write_text(text + f'"sha256": "{hashlib.sha256(text.encode()).hexdigest()}"\n}}\n')


def same(one, other):
    """Equal to the bit in everything but when and how long."""
    assert list(one.fits) == list(other.fits)
    for fit, mine in one.fits.items():
        theirs = other.fits[fit]
        assert mine.scores.tobytes() == theirs.scores.tobytes()
        assert mine.decisions.tobytes() == theirs.decisions.tobytes()
        assert (mine.threshold, mine.history) == (theirs.threshold, theirs.history)
        np.testing.assert_equal(mine.metrics, theirs.metrics)


# fits and splits that are not ours


def cheaper(body):
    body["metrics"]["cost"] /= 2


def more_hits(body):
    body["metrics"]["tp"] += 1


def nameless_cost(body):
    del body["metrics"]["cost"]


def one_row_less(body):
    scores = comparison_store.unpack(body["scores"])[:-1]
    body["scores"] = comparison_store.pack(scores)
    body["decisions"] = comparison_store.pack(np.packbits(scores > 0.5))


def other_decisions(body):
    body["decisions"] = comparison_store.pack(~comparison_store.unpack(body["decisions"]))


def number_for_a_name(body):
    body["fit"]["data"] = 5


FORGERIES = {
    cheaper: r"its cost is .*, its decisions make",
    more_hits: r"its tp is .*, its decisions make",
    nameless_cost: r"its cost is None, its decisions make",
    one_row_less: r"it has decisions about 29 samples and 2 classes, its split has 30 samples and 2 classes",
    other_decisions: r"its cost is .*, its decisions make",
    number_for_a_name: r"its form is wrong: a fit is named by two texts and two numbers",
}


@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda forgery: forgery.__name__)
def test_a_result_whose_numbers_do_not_follow_from_its_decisions_is_run_again(folder, finished, forgery):
    whole = load_comparison(finished)
    forge(folder / FIT_PATH, forgery)
    with pytest.warns(UserWarning, match=rf"ratio-5_seed-1.json is damaged \({FORGERIES[forgery]}.*\) and excluded"):
        load_comparison(folder)
    same(compared(folder), whole)
    assert len(list((folder / "corrupt").rglob("*.json"))) == 1
    same(load_comparison(folder), whole)


@pytest.mark.parametrize("what", ["fit", "doubled", "other method's"])
def test_results_of_other_data_or_of_another_fit_are_run_again(folder, finished, foreign, what):
    whole, reason = load_comparison(finished), "it holds data, ratio 5, "
    if what == "fit":
        shutil.copy(foreign / FIT_PATH, folder / FIT_PATH)
        reason = "it belongs to other data or settings"
    elif what == "doubled":
        shutil.copy(folder / FIT_PATH.replace("seed-1", "seed-0"), folder / FIT_PATH)
    else:
        shutil.copy(folder / FIT_PATH.replace("logistic", "always-positive"), folder / FIT_PATH)
    with pytest.warns(UserWarning, match=reason):
        load_comparison(folder)
    same(compared(folder), whole)


def test_the_results_of_other_settings_are_other_results(folder, tmp_path):
    compared(tmp_path / "other", validation=0.2)
    shutil.copy(tmp_path / "other" / FIT_PATH, folder / FIT_PATH)
    with pytest.warns(UserWarning, match="it belongs to other data or settings"):
        load_comparison(folder)


def test_splits_of_other_data_or_seeds_are_reported_and_made_again(folder, finished, foreign):
    whole = load_comparison(finished)
    shutil.copy(foreign / SPLIT, folder / SPLIT)
    with pytest.raises(StoreError, match=r"data_seed-1.json is damaged \(it belongs to other data or settings\): run"):
        load_comparison(folder)
    same(compared(folder), whole)
    shutil.copy(folder / SPLIT.replace("seed-1", "seed-0"), folder / SPLIT)
    with pytest.raises(StoreError, match=r"damaged \(it belongs to seed 0 of 'data'\): run the comparison again"):
        load_comparison(folder)
    same(compared(folder), whole)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda body: body.update(labels=comparison_store.pack(np.full(30, 7, "i1"))), "it has labels of no class"),
        (
            lambda body: body.update(labels=comparison_store.pack(np.ones(9, "i1"))),
            "labels, units or costs are not those of",
        ),
    ],
)
def test_splits_that_cannot_be_are_reported(folder, change, reason):
    forge(folder / SPLIT, change)
    with pytest.raises(StoreError, match=reason):
        load_comparison(folder)


def test_segments_of_other_data_are_reported(folder, foreign, tmp_path):
    path = "splits/data_segments.json"
    compared(tmp_path / "other", seed=1, segments={"half": np.arange(60) > 30})
    shutil.copy(tmp_path / "other" / path, folder / path)
    with pytest.raises(StoreError, match=r"data_segments.json is damaged \(it belongs to other data or settings\)"):
        load_comparison(folder)


def test_results_on_data_that_nobody_knows_are_reported(folder):
    forge(folder / "run.json", lambda body: body["identity"].update(data={}))
    with (
        pytest.warns(UserWarning, match="it belongs to other data or settings.*, as 3 more are"),
        pytest.raises(RuntimeError, match="every fit failed"),
    ):
        load_comparison(folder)
    with Store.open(folder.parent / "mine", {"data": {}}) as store:
        shutil.copytree(folder / "splits", store.folder / "splits")
        store.write(result_from_json(comparison_store.read_document(folder / FIT_PATH, "fit")))
    with pytest.raises(StoreError, match=r"holds results on 'data', which is not in its run.json: remove them"):
        load_comparison(store.folder)


@pytest.mark.parametrize("identity", [None, {"data": [1]}])
def test_a_run_file_that_states_nothing_is_damaged(folder, identity):
    forge(folder / "run.json", lambda body: body.update(identity=identity))
    for act in (load_comparison, compared):
        with pytest.raises(StoreError, match=r"run.json is damaged \(it does not hold what the results depend on\)"):
            act(folder)


def test_failures_under_another_name_do_not_count(folder):
    with Store.open(folder.parent / "mine", {}) as store:
        fit = next(iter(load_comparison(folder).fits))._replace(seed=9)
        store.fail(fit, ValueError("x"))
        (path,) = (store.folder / "failed").rglob("*.json")
        path.rename(path.with_name("ratio-5_seed-8.json"))
        assert store.scan().failed == {}


def test_parts_of_another_run_are_not_taken(tmp_path):
    mine, theirs = (Parts(tmp_path / name / "parts", origins={"data": name}) for name in ("mine", "theirs"))
    theirs.write("training", 0, {"seconds": 1.0})
    theirs.write("training", 1, {"seconds": 2.0})
    assert theirs.read("training", 0) == {"seconds": 1.0}
    shutil.copytree(theirs.folder, mine.folder)
    assert mine.read("training", 0) is None
    (one,), (two,) = theirs.folder.rglob("1.json"), theirs.folder.rglob("0.json")
    shutil.copy(one, two)
    assert theirs.read("training", 0) is None
    forge(one, lambda body: body.update(kept={"x": {"$array": 3}}))
    assert theirs.read("training", 1) is None


# what is no file


def fifo(path):
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def giant(path):
    with path.open("wb") as file:
        file.truncate(2**40)


def link_to_a_device(path):
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("trap", [fifo, giant, link_to_a_device], ids=lambda trap: trap.__name__)
def test_pipes_giants_and_devices_are_not_read(folder, finished, trap):
    whole = load_comparison(finished)
    trap(folder / FIT_PATH)
    trap(folder / SPLIT)
    same(compared(folder), whole)
    assert stat.S_ISREG((folder / SPLIT).lstat().st_mode)
    trap(folder / "run.json")
    for act in (load_comparison, compared):
        with pytest.raises(
            StoreError, match=r"run.json is damaged \(it (is not a regular|has 1,099|is a link).*restore"
        ):
            act(folder)


# links


@pytest.mark.parametrize("name", ["fits", "fits/data", "fits/data/logistic", "splits", "corrupt", "failed", "parts"])
def test_links_lead_nowhere(folder, tmp_path, name):
    outside = tmp_path / "outside"
    outside.mkdir()
    if (folder / name).exists():
        (folder / name).rename(tmp_path / "moved")
    (folder / name).symlink_to(outside)
    if name == "corrupt":
        (folder / FIT_PATH).write_text("{")
    if name in ("failed", "parts"):
        with Store.open(folder, Store.read_only(folder).identity) as store:
            fit = next(iter(load_comparison(folder).fits))._replace(method="new")
            acts = {
                "failed": lambda: store.fail(fit, ValueError("x")),
                "parts": lambda: Parts(folder / "parts").write("training", 0, {"x": 1}),
            }
            with pytest.raises(StoreError, match=rf"{name} is a link, which may lead anywhere: remove it, or choose"):
                acts[name]()
    else:
        with pytest.raises(StoreError, match=rf"{name} is a link, which may lead anywhere: remove it, or choose"):
            compared(folder)
        if name.startswith("fits"):
            with pytest.raises(StoreError, match=f"{name} is a link"):
                load_comparison(folder)
    assert not list(outside.iterdir())


@pytest.mark.parametrize("trap", ["link", "pipe"])
def test_locks_are_ordinary_files(folder, tmp_path, trap):
    name = ".lock"
    (folder / name).unlink()
    if trap == "link":
        (folder / name).symlink_to(tmp_path / "made")
    else:
        os.mkfifo(folder / name)
    with pytest.raises(StoreError, match=rf"{name} is a link or not a regular file: remove it, or choose another"):
        compared(folder)
    assert not (tmp_path / "made").exists()


def test_a_page_takes_the_place_of_a_link(folder, tmp_path):
    (tmp_path / "mine.html").write_text("mine")
    (folder / "report.html").symlink_to(tmp_path / "mine.html")
    load_comparison(folder).report(folder / "report.html")
    assert (tmp_path / "mine.html").read_text() == "mine"
    assert not (folder / "report.html").is_symlink()


# no code


class Planted:
    """A pickle that leaves a trace when it is read."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return Path.touch, (self.trace,)


def test_no_pickle_lies_in_the_folder_while_a_run_goes_on(load_module, tmp_path):
    toys = load_module(Path(__file__).parent / "scripts" / "small_fits.py")
    result_of, folder, trace = toys.result_of, tmp_path / "run", tmp_path / "trace"
    phrase = "a word that only a pickle of the work would hold"

    def work(shared, payload, fits):
        assert shared["x"].sum() == 2_000_000
        names = [path for path in folder.rglob("*") if path.is_file() and phrase.encode() in path.read_bytes()]
        for fit in fits:
            result = result_of(fit)
            result.metrics["pickles"] = len(names)
            result.metrics["named"] = len(list(folder.glob("*.draft")))
            yield result

    with Store.open(folder, toys.IDENTITY) as store:
        # what was planted is never read, whatever it is called
        for name in ("objects", "buffers", ".shared-0.draft"):
            (folder / name).write_bytes(pickle.dumps(Planted(trace)))
        assert run(toys.grid(4), work, store, shared={"x": np.ones(2_000_000), "word": phrase}, n_jobs=2).failed == 0
        results = store.results()
    assert set(results["pickles"]) == {0}
    assert set(results["named"]) == {1}  # the planted one
    assert not trace.exists()


@pytest.mark.parametrize("nameless", [True, False])
def test_what_is_packed_comes_back_also_where_no_nameless_file_can_be_reached(tmp_path, nameless):
    content = {"x": np.arange(9.0), "empty": np.zeros(0), "word": "y"}
    with (tmp_path / "a").open("w+b") as file:
        parcel = processes.pack(content, file if nameless else None)
        back = worker.unpack(parcel)
    assert bool(parcel.file) is nameless
    np.testing.assert_equal(back, content)
    back["x"][0] = 5.0  # its own copy


def test_data_that_are_not_those_that_were_sent_are_refused(tmp_path):
    with (tmp_path / "a").open("w+b") as file:
        parcel = processes.pack({"x": np.arange(9.0)}, file)
    (tmp_path / "b").write_bytes((tmp_path / "a").read_bytes())
    with pytest.raises(RuntimeError, match="holds other data than this worker was sent"):
        worker.unpack(parcel._replace(file=str(tmp_path / "b")))


def test_a_worker_imports_nothing_before_it_looks_after_its_parent():
    """What is unpickled to start it names one module of ours, which imports the standard library only."""
    code = (
        "import sys, adacsl; before = set(sys.modules); import adacsl.execution.worker\n"
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before} - sys.stdlib_module_names))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) - {"__mp_main__"} == {"adacsl"}  # multiprocessing's name of the main module
    assert inspect.getsource(worker.serve).split('"""')[2].split()[0] == "watch_parent(parent)"
    assert processes.serve is worker.serve


@pytest.fixture(scope="module")
def asked():
    """Every name that a pickle asks for, while it is switched on: a hook cannot be taken away."""
    seen, switch = [], []
    sys.addaudithook(lambda event, args: seen.append(args) if event == "pickle.find_class" and switch else None)
    switch.append(True)
    yield seen
    switch.clear()


def test_opening_resuming_and_reporting_read_no_pickle(folder, asked, tmp_path):
    poison = pickle.dumps(Planted(tmp_path / "trace"))
    for path in (folder / FIT_PATH, folder / "objects", folder / SPLIT, folder / "parts" / "data" / "0.json"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(poison)
    asked.clear()
    compared(folder)
    load_comparison(folder).report(folder / "report.html")
    assert asked == []
    assert not (tmp_path / "trace").exists()
    pickle.loads(poison)  # noqa: S301  ours
    assert len(asked) >= 2  # the hook works
    assert (tmp_path / "trace").exists()


# a full disk


def test_a_finished_run_needs_no_room(folder, finished, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(atomic.os, "fsync", full)
    same(compared(folder, segments={"half": np.arange(60) < 30}), load_comparison(finished))
    with pytest.raises(StoreError, match=r"could not write .*: No space left on device; free some space"):
        compared(folder, methods=["always-negative"])
