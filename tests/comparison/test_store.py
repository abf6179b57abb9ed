"""The store: what is written comes back exactly, the first result stays, damage is found, errors are one line."""

import base64
import errno
import hashlib
import json
import math
import os
import re
import resource
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adacsl import CostMatrix
from adacsl.comparison import store as comparison_store
from adacsl.comparison.fits import FitKey, FitResult
from adacsl.comparison.store import Failure, Store, StoredSplit, StoreError, file_name, ratio_name
from adacsl.storage import documents, sealed

IDENTITY = {
    "data": {"toy": {"digest": "aa", "rows": 9, "source": "toy.csv"}},
    "protocol": {"test": 0.25, "epochs": 30, "neural": {"width": 64}},
}
FIT = FitKey("toy", 8.0, "net-tuned", 3)
PLACE = "toy/net-tuned/ratio-8_seed-3.json"


def made(fit=FIT, n=11, **changes):
    rng = np.random.default_rng(1)
    scores = rng.random(n).astype(np.float32)
    fields = {
        "fit": fit,
        "metrics": {"cost": 0.1 + 0.2, "normalized_cost": 0.5, "tp": 3.0, "n_test": float(n)},
        "scores": scores,
        "decisions": scores > 0.4,
        "threshold": 0.4,
        "history": [{"epoch": 0, "lambda": 1.25, "val_cost": None}],
        "seconds": 1.5,
        "provenance": {"device": "abacus"},
    }
    return FitResult(**(fields | changes))


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "run", IDENTITY) as opened:
        yield opened


def same(one, other):
    """Equal to the bit, NaN equal to NaN."""
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    return one == other


@contextmanager
def full_disk(size=200):
    """Let writes stop in the middle of a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def forge(path, **changes):
    """Change a document and make its digest fit again, without the code under test."""
    body = json.loads(path.read_bytes()) | changes
    del body["sha256"]
    text = "{\n" + "".join(f"{json.dumps(key)}: {json.dumps(value)},\n" for key, value in body.items())
    path.write_text(text + f'"sha256": "{hashlib.sha256(text.encode()).hexdigest()}"\n}}\n')


# the round trip


def test_a_result_comes_back_as_it_was(store):
    result = made()
    assert store.write(result)
    back = store.read(FIT)
    assert back.fit == FIT
    assert isinstance(back.fit, FitKey)
    assert back.metrics == result.metrics
    assert back.scores.dtype == np.float32
    assert np.array_equal(back.scores, result.scores)
    assert back.decisions.dtype == bool
    assert np.array_equal(back.decisions, result.decisions)
    assert (back.threshold, back.seconds, back.history) == (0.4, 1.5, result.history)
    assert back.provenance["device"] == "abacus"
    assert (store.folder / "fits" / PLACE).exists()


def test_the_file_is_legal_json_with_plain_arrays(store):
    store.write(made(metrics={"cost": math.nan, "savings": -math.inf}, threshold=math.inf))
    text = (store.folder / "fits" / PLACE).read_text()

    def refuse(constant):
        raise AssertionError(constant)

    body = json.loads(text, parse_constant=refuse)
    assert body["metrics"] == {"cost": {"$float": "nan"}, "savings": {"$float": "-inf"}}
    scores = np.frombuffer(base64.b64decode(body["scores"]["base64"]), dtype="<f4")
    assert np.array_equal(scores, made().scores)
    assert body["sha256"] == hashlib.sha256(text[: text.index('"sha256"')].encode()).hexdigest()
    back = store.read(FIT)
    assert math.isnan(back.metrics["cost"])
    assert back.metrics["savings"] == -math.inf
    assert back.threshold == math.inf


@settings(max_examples=25)  # each one flushes files to the disk
@given(
    metrics=st.dictionaries(st.text(max_size=9).filter(lambda key: key != "$float"), st.floats(), max_size=6),
    bits=st.lists(st.booleans(), max_size=40),
    threshold=st.none() | st.floats(),
    message=st.text(max_size=20),
)
def test_any_numbers_come_back(tmp_path_factory, metrics, bits, threshold, message):
    scores = np.random.default_rng(0).normal(size=len(bits)).astype(np.float32)
    scores[:2] = np.array([np.nan, np.inf], dtype=np.float32)[: len(bits)]
    result = made(metrics=metrics, scores=scores, decisions=np.array(bits, dtype=bool), threshold=threshold)
    with Store.open(tmp_path_factory.mktemp("runs") / "run", IDENTITY) as opened:
        opened.fail(FIT, Failure("E", message))
        assert opened.scan().failed[FIT].message == message
        opened.write(result)
        back = opened.read(FIT)
    assert list(back.metrics) == list(metrics)
    assert all(same(back.metrics[key], value) for key, value in metrics.items())
    assert same(back.threshold, threshold)
    assert back.scores.tobytes() == scores.tobytes()
    assert back.decisions.tolist() == bits


def test_numpy_values_and_odd_layouts_are_taken(store):
    scores = np.linspace(0, 1, 20)[::2]
    history = [{"lambda": np.float64(2.5), "thresholds": np.array([0.25, np.nan]), "epoch": np.int64(1), "t": (1, 2)}]
    store.write(made(scores=scores.astype(">f8"), decisions=(scores > 0.5).astype(int), history=history))
    back = store.read(FIT)
    assert np.array_equal(back.scores, scores.astype(np.float32))
    assert back.history[0]["thresholds"][0] == 0.25
    assert math.isnan(back.history[0]["thresholds"][1])
    assert (back.history[0]["epoch"], back.history[0]["t"]) == (1, [1, 2])


def test_numpy_numbers_name_the_same_fit(store):
    store.write(made(FitKey("toy", np.float64(8), "net-tuned", np.int64(3))))
    assert store.scan().done == {FIT}
    assert store.has(FitKey("toy", 8, "net-tuned", 3))


def test_the_first_result_stays(store):
    assert store.write(made())
    before = files(store.folder)
    inode = (store.folder / "fits" / PLACE).stat().st_ino
    assert not store.write(made(threshold=0.9))
    assert files(store.folder) == before
    assert (store.folder / "fits" / PLACE).stat().st_ino == inode


def test_without_hard_links_the_first_result_stays_too(store, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    assert store.write(made())
    assert not store.write(made(threshold=0.9))
    assert store.read(FIT).threshold == 0.4
    assert not list(store.folder.rglob("*.draft"))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"history": [{"a": {1, 2}}]}, TypeError, r"fit.history\[0\].a must be a JSON value .*, got set"),
        ({"metrics": {3: 1.0}}, TypeError, r"fit.metrics: keys must be str other than '\$float', got 3"),
        ({"metrics": {"$float": 1.0}}, TypeError, r"keys must be str other than '\$float', got '\$float'"),
        ({"decisions": np.zeros(3, bool)}, ValueError, r"seed 3: scores and decisions must be vectors of one length"),
        ({"fit": FitKey("a", math.nan, "b", 0)}, ValueError, "a cost ratio must be finite, got nan"),
    ],
)
def test_what_cannot_be_stored_is_said_and_leaves_nothing(store, changes, error, message):
    with pytest.raises(error, match=message):
        store.write(made(**changes))
    assert not (store.folder / "fits").exists()


# names


@given(
    names=st.lists(st.text(min_size=0, max_size=80) | st.sampled_from(["A", "a", "con", "..", "", "a~1"]), max_size=8)
)
def test_file_names_are_safe_and_different(names):
    made_names = {name: file_name(name) for name in names}
    assert all(re.fullmatch(r"[a-z0-9._~-]{1,60}", safe) and not safe.startswith(".") for safe in made_names.values())
    assert len({safe.lower() for safe in made_names.values()}) == len(made_names)
    plain = [safe for safe in made_names.values() if "~" not in safe]
    assert all(made_names[safe] == safe for safe in plain)


def test_names_of_users_lead_nowhere_else(store):
    names = [
        "../../x",
        "/etc",
        "a/b",
        "Breast Cancer",
        "breast cancer",
        ".hidden",
        "x" * 300,
        "é",
        "\x00",
        "",
    ]
    for name in names:
        store.write(made(FitKey(name, 1.0, name, 0)))
    assert store.scan().done == {FitKey(name, 1.0, name, 0) for name in names}
    assert set(store.results()["method"]) == set(names)
    written = [path for path in store.folder.rglob("*.json") if path.name != "run.json"]
    assert len(written) == len(names)
    assert {path.parents[2] for path in written} == {store.folder / "fits"}


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, min_value=1e-9, max_value=1e9), max_size=6))
def test_ratios_have_exact_names(ratios):
    assert [float(ratio_name(ratio)) for ratio in ratios] == ratios
    assert all(re.fullmatch(r"[0-9.e+-]+", ratio_name(ratio)) for ratio in ratios)


def test_nearly_equal_ratios_are_two_fits(store):
    for ratio in (3.0, 3.0000001):
        store.write(made(FitKey("toy", ratio, "net", 0)))
    assert len(store.scan().done) == 2


# the identity of a run


def test_a_run_is_opened_again_and_may_grow(store):
    store.write(made())
    store.close()
    with Store.open(store.folder, IDENTITY) as again:
        again.write(made(FitKey("toy", 16.0, "net-smote", 99)))
        assert len(again.scan().done) == 2
    run = json.loads((store.folder / "run.json").read_text())
    assert run["identity"] == IDENTITY
    assert run["versions"]["numpy"] == np.__version__
    assert abs(time.time() - datetime.fromisoformat(run["created"]).timestamp()) < 60
    assert Store.read_only(store.folder).identity == IDENTITY


def test_data_may_be_added_but_not_changed(store):
    store.close()
    with Store.open(store.folder, IDENTITY | {"data": {"more": {"digest": "bb"}}}) as again:
        assert set(again.identity["data"]) == {"toy", "more"}
    moved = IDENTITY | {"data": {"toy": {"digest": "aa", "source": "elsewhere.csv"}}}
    Store.open(store.folder, moved).close()  # the same bytes at another place
    with pytest.raises(StoreError, match="digest of 'more' differs"):
        Store.open(store.folder, IDENTITY | {"data": {"more": {"digest": "cc"}}})


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"data": {"toy": {"digest": "ab"}}}, "digest of 'toy' differs"),
        ({"data": {"toy": "aa-as-text"}}, "digest of 'toy' differs"),
        ({"protocol": IDENTITY["protocol"] | {"epochs": 20}}, "protocol.epochs was 30, is 20"),
        ({"protocol": IDENTITY["protocol"] | {"neural": {"width": 8}}}, "protocol.neural.width was 64, is 8"),
        ({"protocol": IDENTITY["protocol"] | {"folds": 5}}, "protocol.folds is new"),
        ({"protocol": {"test": 0.25, "neural": {"width": 64}}}, "protocol.epochs is missing"),
        ({"protocol": "x" * 99}, r'protocol was \{"test": 0.25.*\.\.\., is "xxxxx'),
    ],
)
def test_another_identity_is_refused_and_named(store, changes, difference):
    store.close()
    before = files(store.folder)
    text = rf"holds results of other data or settings \({difference}.*\): choose another --out"
    with pytest.raises(StoreError, match=text):
        Store.open(store.folder, IDENTITY | changes)
    assert files(store.folder) == before
    Store.open(store.folder, IDENTITY).close()  # the lock is free again


def test_a_newer_schema_asks_for_an_update(store):
    store.write(made())
    forge(store.folder / "fits" / PLACE, schema_version=8)
    for act in (store.scan, store.results, lambda: store.read(FIT)):
        with pytest.raises(StoreError, match=r"has schema version 8; adacsl .* reads version 7: update adacsl"):
            act()
    store.close()
    forge(store.folder / "run.json", schema_version=8)
    for act in (lambda: Store.read_only(store.folder), lambda: Store.open(store.folder, IDENTITY)):
        with pytest.raises(StoreError, match=r"run.json has schema version 8; .*: update adacsl"):
            act()


def test_the_folder_of_an_older_adacsl_is_refused_and_left_alone(store):
    store.close()
    forge(store.folder / "run.json", schema_version=4)
    before = files(store.folder)
    with pytest.raises(StoreError, match=r"run.json has schema version 4; .* reads version 7: choose another --out"):
        Store.open(store.folder, IDENTITY)
    assert files(store.folder) == before


def test_a_damaged_run_file_is_named(store):
    store.close()
    (store.folder / "run.json").write_text("{}")
    for act in (lambda: Store.read_only(store.folder), lambda: Store.open(store.folder, IDENTITY)):
        with pytest.raises(StoreError, match=r"run.json is damaged \(its digest .*: restore it, or choose another"):
            act()


def test_folders_that_are_no_runs_are_refused(tmp_path):
    with pytest.raises(StoreError, match=r"there is no run in .*nothing \(it has no run.json\): give the --out of a"):
        Store.read_only(tmp_path / "nothing")
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(StoreError, match=r"holds other files \(thesis.tex, ...\) and no run: choose a new or empty"):
        Store.open(tmp_path, IDENTITY)
    with pytest.raises(StoreError, match=r"thesis.tex is a file: choose a folder for --out"):
        Store.open(tmp_path / "thesis.tex", IDENTITY)
    with pytest.raises(StoreError, match=r"could not write .*thesis.tex/run: Not a directory"):
        Store.open(tmp_path / "thesis.tex" / "run", IDENTITY)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


# one process at a time


def test_a_second_process_is_refused(store):
    with pytest.raises(StoreError, match=r"another process writes to .*run: wait until it has ended, or choose"):
        Store.open(store.folder, IDENTITY)
    code = "import sys; from adacsl.comparison.store import Store; Store.open(sys.argv[1], {})"
    done = subprocess.run([sys.executable, "-c", code, str(store.folder)], capture_output=True, text=True, check=False)
    assert "another process writes to" in done.stderr
    assert Store.read_only(store.folder).results().empty  # readers need no lock
    store.close()
    store.close()
    Store.open(store.folder, IDENTITY).close()


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    code = (
        "import os, sys, signal; from adacsl.comparison.store import Store\n"
        "store = Store.open(sys.argv[1], {})\n"
        "open(os.path.join(sys.argv[1], '.abc.draft'), 'w').close(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "run")], check=False)
    assert done.returncode == -9
    with Store.open(tmp_path / "run", {}):
        assert not list((tmp_path / "run").rglob("*.draft"))


def test_drafts_of_killed_processes_are_removed_and_never_read(store):
    store.write(made())
    folder = store.folder / "fits" / "toy" / "net-tuned"
    (folder / ".0123.draft").write_bytes(b"{")
    (store.folder / ".shared-1.draft").mkdir()
    (store.folder / ".shared-1.draft" / "buffers").write_bytes(b"x")
    assert store.scan().done == {FIT}
    store.close()
    Store.open(store.folder, IDENTITY).close()
    assert sorted(files(store.folder)) == [".lock", f"fits/{PLACE}", "run.json"]
    assert not (store.folder / ".shared-1.draft").exists()


# damage


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


def empty(path):
    path.write_bytes(b"")


def flip(path):
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)


def append(path):
    path.write_bytes(path.read_bytes() + b"\n")


def binary(path):
    path.write_bytes(bytes(range(256)))


def other_fit(path):
    forge(path, fit={"data": "toy", "ratio": 8.0, "method": "net-tuned", "seed": 4})


def other_kind(path):
    forge(path, format="adacsl-failure")


def no_version(path):
    forge(path, schema_version="one")


def bad_scores(path):
    forge(path, scores={"dtype": "<f4", "base64": "AAA"})


def strange_scores(path):
    forge(path, scores={"dtype": "O", "base64": ""})


def few_scores(path):
    forge(path, scores={"dtype": "<f4", "base64": "AAAAAA=="})


def few_bits(path):
    forge(path, decisions={"bits": 11, "base64": "AA=="})


def missing_part(path):
    forge(path, metrics=None)


def odd_number(path):
    forge(path, threshold={"$float": "many"})


@pytest.mark.parametrize(
    "damage",
    [
        *(truncate, empty, flip, append, binary, other_fit, other_kind, no_version, missing_part, odd_number),
        *(bad_scores, strange_scores, few_scores, few_bits),
    ],
    ids=lambda damage: damage.__name__,
)
def test_damage_is_found_set_aside_and_counts_as_missing(store, damage):
    whole = FitKey("toy", 8.0, "net-tuned", 5)
    store.write(made())
    store.write(made(whole))
    path = store.folder / "fits" / PLACE
    damage(path)
    content = path.read_bytes()
    with pytest.raises(StoreError, match=r"seed-3.json is damaged \(.*\): start the comparison again, it re-runs"):
        store.read(FIT)
    with pytest.warns(UserWarning, match=r"seed-3.json is damaged \(.*\) and excluded: start the comparison again"):
        assert set(store.results()["seed"]) == {5}
    reader = Store.read_only(store.folder)
    assert list(reader.scan().corrupt) == [path]  # a reader leaves it where it is
    assert path.exists()
    scan = store.scan()
    assert scan.done == {whole}
    (aside,) = scan.corrupt
    assert aside.parent == store.folder / "corrupt" / "toy" / "net-tuned"
    assert aside.read_bytes() == content
    assert not path.exists()
    assert store.scan().corrupt == {}
    assert store.write(made())
    assert store.scan().done == {FIT, whole}
    damage(path)
    assert len({*store.scan().corrupt, aside}) == 2  # nothing that was set aside is overwritten
    with pytest.raises(StoreError, match=r"has no result of toy, ratio 8, net-tuned, seed 3: run the comparison again"):
        store.read(FIT)


def test_other_files_do_not_matter(store):
    store.write(made())
    (store.folder / "fits" / "notes.txt").write_text("x")
    (store.folder / "report.html").write_text("x")
    (store.folder / "fits" / "toy" / "net-tuned" / ".DS_Store").write_text("x")
    assert store.scan() == ({FIT}, {}, {}, {FIT: pytest.approx({"cost": 0.3, "normalized": 0.5, "seconds": 1.5})})


# failures


def test_failures_are_recorded_counted_and_forgotten_when_the_fit_is_done(store):
    with pytest.raises(ZeroDivisionError) as caught:
        raise ZeroDivisionError("no positives\nin fold 3")
    assert store.fail(FIT, caught.value).attempts == 1
    store.fail(FIT, caught.value)
    failure = store.scan().failed[FIT]
    assert failure[:2] == ("ZeroDivisionError", "no positives\nin fold 3")
    assert failure.attempts == 2
    assert 'raise ZeroDivisionError("no positives' in failure.traceback
    assert not store.has(FIT)
    assert store.scan().done == set()
    row = store.failures().iloc[0]
    assert tuple(row[["data", "ratio", "method", "seed", "type", "attempts"]]) == (*FIT, "ZeroDivisionError", 2)
    assert store.results().empty
    store.write(made())
    assert store.scan().failed == {}
    assert store.failures().empty
    store.fail(FIT, ValueError("too late"))
    assert store.scan() == ({FIT}, {}, {}, {FIT: pytest.approx({"cost": 0.3, "normalized": 0.5, "seconds": 1.5})})
    assert not list((store.folder / "failed").rglob("*.json"))


def test_messages_with_broken_letters_are_kept(store):
    store.fail(FIT, ValueError("bad name \udcff"))
    assert store.failures()["message"].tolist() == ["bad name \\udcff"]


def test_a_failure_left_beside_a_result_does_not_count(store):
    store.fail(FIT, ValueError("x"))
    path = store.folder / "failed" / PLACE
    content = path.read_bytes()
    store.write(made())
    path.write_bytes(content)  # as if killed between the two
    assert store.scan().failed == {}
    assert store.failures().empty


@pytest.mark.parametrize("damage", [truncate, missing_part, other_kind], ids=lambda damage: damage.__name__)
def test_a_damaged_failure_is_as_good_as_none(store, damage):
    store.fail(FIT, ValueError("x"))
    damage(store.folder / "failed" / PLACE)
    if damage is missing_part:
        forge(store.folder / "failed" / PLACE, fit={"data": 1})
    if damage is other_kind:
        forge(store.folder / "failed" / PLACE, format="adacsl-fit")
    assert store.scan().failed == {}
    assert store.fail(FIT, ValueError("x")).attempts == 1


# frames


def test_results_have_one_row_per_fit_in_order(store):
    full = ["cost", "total_cost", "normalized_cost", "savings", "accuracy", "tp", "fp", "fn", "tn", "n_train", "n_test"]
    metrics = dict.fromkeys(reversed(full), 1.0)
    store.write(made(FitKey("b", 8.0, "net", 1), metrics=metrics | {"epoch": 4.0}, threshold=None))
    store.write(made(FitKey("a", 16.0, "net", 0), metrics=metrics))
    store.write(made(FitKey("a", 2.0, "net", 0), metrics=metrics | {"lambda": 1.5}))
    frame = store.results()
    assert list(frame.columns[:15]) == ["data", "ratio", "method", "seed", *full]
    assert set(frame.columns[15:-3]) == {"epoch", "lambda"}
    assert list(frame.columns[-3:]) == ["threshold", "seconds", "device"]
    assert frame[["data", "ratio"]].to_numpy().tolist() == [["a", 2.0], ["a", 16.0], ["b", 8.0]]
    assert frame["threshold"].tolist()[:2] == [0.4, 0.4]
    assert math.isnan(frame["threshold"][2])
    assert frame["lambda"].notna().tolist() == [True, False, False]
    assert set(frame["device"]) == {"abacus"}
    assert list(Store.read_only(store.folder).results()) == list(frame)


def test_an_empty_run_has_the_columns_of_a_full_one(store):
    assert list(store.results())[:6] == ["data", "ratio", "method", "seed", "cost", "total_cost"]
    assert list(store.failures()) == [
        "data",
        "ratio",
        "method",
        "seed",
        "type",
        "message",
        "traceback",
        "attempts",
        "time",
    ]
    assert store.scan() == (set(), {}, {}, {})


# splits


def split(rows, labels, costs, units=None):
    return StoredSplit(rows, labels, costs, rows if units is None else units)


@pytest.mark.parametrize("price", [1.0, 1e-9, 1e9])
def test_splits_come_back_with_class_wide_costs(store, price):
    costs = CostMatrix(fp=price, fn=8 * price, tn=-0.1 * price)
    store.write_split("toy", 3, split(np.array([5, 2, 9]), np.array([1, 0, 1]), costs))
    back = store.read_split("toy", 3)
    assert back.test_rows.tolist() == [5, 2, 9]
    assert back.labels.tolist() == [1, 0, 1]
    assert back.labels.dtype == back.test_rows.dtype == np.int64
    assert back.costs == costs
    assert back.units.tolist() == [5, 2, 9]
    store.write_split("toy", 3, split(np.array([5, 2, 9]), np.array([1, 0, 1]), costs))  # the same again: fine
    with pytest.raises(StoreError, match=r"seed 3 of 'toy' was split in another way, see .*toy_seed-3.json: choose"):
        store.write_split("toy", 3, split(np.array([5, 2, 8]), np.array([1, 0, 1]), costs))
    assert store.read_split("toy", 3).test_rows.tolist() == [5, 2, 9]


def test_splits_come_back_with_their_units(store):
    rows, labels, costs = np.array([5, 2, 9]), np.array([1, 0, 1]), CostMatrix(fp=1, fn=8)
    store.write_split("toy", 0, split(rows, labels, costs, np.array([2, 2, 9])))
    assert store.read_split("toy", 0).units.tolist() == [2, 2, 9]
    with pytest.raises(ValueError, match="3 labels, 1 units"):
        store.write_split("toy", 1, split(rows, labels, costs, np.array([2])))


def test_splits_come_back_with_costs_of_rows_even_free_ones(store):
    costs = CostMatrix(fp=2.0, fn=np.array([1.0, 2.5, 0.0, 0.0]))
    store.write_split("Größe/2", 0, split(np.array([0, 1]), np.array([1, 0]), costs.rows(np.array([0, 1]))))
    back = Store.read_only(store.folder).read_split("Größe/2", 0).costs
    assert back.n_instances == 2
    assert back.fn.tolist() == [1.0, 2.5]
    assert back.fp == 2.0
    store.write_split("toy", 1, split(np.array([2, 3]), np.array([1, 0]), costs.rows(np.array([2, 3]))))
    assert store.read_split("toy", 1).costs.fn.tolist() == [0.0, 0.0]


def test_a_damaged_or_missing_split_is_named_and_written_anew(store):
    with pytest.raises(StoreError, match=r"has no split of 'toy' with seed 0: run the comparison again"):
        store.read_split("toy", 0)
    rows, labels, costs = np.array([1, 2]), np.array([0, 1]), CostMatrix(fp=1, fn=2)
    store.write_split("toy", 0, split(rows, labels, costs))
    path = store.folder / "splits" / "toy_seed-0.json"
    for damage in (truncate, lambda path: forge(path, costs={})):
        damage(path)
        with pytest.raises(StoreError, match=r"toy_seed-0.json is damaged \(.*\): run the comparison again"):
            store.read_split("toy", 0)
        if damage is truncate:
            store.write_split("toy", 0, split(rows, labels, costs))
            assert store.read_split("toy", 0).labels.tolist() == [0, 1]
    with pytest.raises(ValueError, match="a split needs one label and unit for each test sample and their costs"):
        store.write_split("toy", 0, split(rows, labels[:1], costs))
    with pytest.raises(ValueError, match="a split needs one label and unit"):
        store.write_split("toy", 0, split(rows, labels, CostMatrix(fp=1, fn=np.array([1.0, 2.0, 3.0]))))


# disks


def test_a_full_disk_is_one_line_and_leaves_nothing_half_written(store, tmp_path):
    store.write(made())
    before = files(store.folder)
    other = FitKey("toy", 8.0, "net-tuned", 4)
    acts = [
        lambda: store.write(made(other)),
        lambda: store.fail(other, ValueError("x" * 300)),
        lambda: store.write_split("toy", 0, split(np.arange(99), np.ones(99), CostMatrix(fp=1, fn=2))),
        lambda: Store.open(tmp_path / "new", IDENTITY),
    ]
    for act in acts:
        with (
            full_disk(),
            pytest.raises(StoreError, match=r"^could not write .*: File too large; free some space, .*out$"),
        ):
            act()
    assert files(store.folder) == before
    assert not (tmp_path / "new").exists()
    assert store.write(made(other))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("call", ["fsync", "link"])
def test_whatever_the_disk_says_is_one_line(store, monkeypatch, code, call):
    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(StoreError, match=rf"could not write .*seed-3.json: {os.strerror(code)}; free some space"):
        store.write(made())
    monkeypatch.undo()
    assert sorted(files(store.folder)) == [".lock", "run.json"]
    assert store.write(made())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_no_permission_is_one_line(tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(StoreError, match=r"could not write .*: Permission denied; free some space, check permissions"):
        Store.open(tmp_path / "locked" / "run", IDENTITY)


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    import fcntl

    def refuse(*_):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StoreError, match=r"the file system of .*run cannot lock files: choose another --out"):
        Store.open(tmp_path / "run", IDENTITY)
    assert not (tmp_path / "run").exists()


def test_a_file_that_cannot_be_read_is_not_called_damaged(store, monkeypatch):
    store.write(made())
    read = sealed.read_regular

    def refuse(path, **limits):
        if path.name.startswith("ratio"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return read(path, **limits)

    monkeypatch.setattr(sealed, "read_regular", refuse)
    with pytest.raises(StoreError, match=r"seed-3.json cannot be read: Permission denied; check its permissions"):
        store.scan()


# provenance


def test_results_are_stamped_with_where_and_when(store, monkeypatch):
    store.write(made(provenance={}))
    result = store.read(FIT).provenance
    assert set(result["versions"]) >= {"python", "adacsl", "numpy", "torch", "scikit-learn"}
    assert result["device"] == "cpu"
    assert result["finished"] <= comparison_store.now()
    given = {"device": "abacus", "versions": {"x": "1"}, "commit": "c0ffee", "started": "then"}
    store.write(made(FIT._replace(seed=4), provenance=given))
    assert store.read(FIT._replace(seed=4)).provenance.items() >= given.items()


def test_the_commit_is_that_of_the_working_directory(tmp_path, monkeypatch):
    comparison_store.commit.cache_clear()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert comparison_store.commit() is None
    comparison_store.commit.cache_clear()
    monkeypatch.setenv("PATH", "")
    assert comparison_store.commit() is None
    comparison_store.commit.cache_clear()
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", *identity, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    assert comparison_store.commit() == head
    comparison_store.commit.cache_clear()


def test_reading_results_of_a_run_loads_no_torch():
    code = "import sys, adacsl.comparison.runner; sys.exit(any(m in sys.modules for m in ('torch', 'pandas', 'ray')))"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_documents_with_wrong_tails_are_not_whole():
    content = comparison_store.document("fit", {"a": 1})
    assert documents.is_whole(content)
    assert not documents.is_whole(content[1:])
    assert not documents.is_whole(b"")
    assert not documents.is_whole(content.replace(b'"a": 1', b'"a": 2'))
