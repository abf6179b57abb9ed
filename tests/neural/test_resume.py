"""An interrupted fit goes on where it was, and ends with the very weights of an uninterrupted one."""

import contextlib
import hashlib
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from torch import nn

from adacsl import CostMatrix, CostSensitiveClassifier
from adacsl.neural.learner import NeuralLearner
from adacsl.storage.atomic import draft_of

SCRIPT = Path(__file__).parent / "scripts" / "fit_slowly.py"


@pytest.fixture(scope="module")
def script(load_module):
    return load_module(SCRIPT)


def same(one, other):
    a, b = one.net_.state_dict(), other.net_.state_dict()
    assert list(a) == list(b)
    return all(torch.equal(a[name], b[name]) for name in a)


class Stop(pl.Callback):
    """Breaks off in the middle of an epoch."""

    def __init__(self, epoch, error):
        self.epoch, self.error = epoch, error

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.current_epoch == self.epoch and batch_idx == 0:
            raise self.error


def start(folder, out, seconds, kind):
    command = [sys.executable, str(SCRIPT), str(folder), str(out), str(seconds), kind]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for(process, line):
    for text in process.stdout:
        if text.strip() == line:
            return
    raise AssertionError(f"{line!r} never came")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pytest.param("together", marks=pytest.mark.weekly), "one by one"])
def test_a_killed_fit_goes_on(script, tmp_path, kind):
    with start(tmp_path / "run", tmp_path / "weights.pt", 0.3, kind) as process:
        try:
            wait_for(process, "epoch 3")
            if kind == "one by one":  # in the middle of the second net
                wait_for(process, "epoch 2")
            time.sleep(0.1)
        finally:
            process.send_signal(signal.SIGKILL)
    assert not (tmp_path / "weights.pt").exists()
    epochs, every = [], []

    class Watch(pl.Callback):
        def __init__(self, seen):
            self.seen = seen

        def on_train_epoch_start(self, trainer, pl_module):
            self.seen.append(trainer.current_epoch)

    resumed = script.classifier(tmp_path / "run", kind, callbacks=[Watch(epochs)]).fit(*script.made_up())
    whole = script.classifier(tmp_path / "other", kind, callbacks=[Watch(every)]).fit(*script.made_up())
    assert same(resumed, whole)
    assert 0 < epochs[0] <= 3  # it did not start anew
    assert len(epochs) < len(every)
    assert resumed.history_.equals(whole.history_)
    assert np.array_equal(resumed.oof_scores_, whole.oof_scores_)
    assert resumed.estimated_cost_ == whole.estimated_cost_


@pytest.mark.weekly
@pytest.mark.slow
def test_control_c_ends_cleanly_and_can_go_on(script, tmp_path):
    with start(tmp_path / "run", tmp_path / "weights.pt", 0.3, "together") as process:
        try:
            wait_for(process, "epoch 2")
            process.send_signal(signal.SIGINT)
            rest, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert "interrupted" in rest
    assert "Traceback" not in rest
    assert same(script.fit(tmp_path / "run"), script.fit(tmp_path / "other"))


def test_control_c_is_a_keyboard_interrupt_and_works_twice(script, tmp_path):
    handler = signal.getsignal(signal.SIGINT)
    for folder in (None, tmp_path / "run"):
        clf = script.classifier(folder, callbacks=[Stop(2, KeyboardInterrupt())])
        with pytest.raises(KeyboardInterrupt):
            clf.fit(*script.made_up())
        assert signal.getsignal(signal.SIGINT) is handler
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_an_exit_of_the_users_own_stays_one(script):
    clf = script.classifier(None, callbacks=[Stop(1, SystemExit(7))])
    with pytest.raises(SystemExit, match="7"):
        clf.fit(*script.made_up())


@pytest.mark.parametrize("kind", ["together", "one by one", "stopping early"])
@pytest.mark.parametrize("select", ["best", "last"])
def test_a_crashed_fit_goes_on(script, tmp_path, kind, select):
    stop = Stop(3, RuntimeError("power cut"))
    broken = script.classifier(tmp_path / "run", kind, callbacks=[stop], select=select)
    with pytest.raises(RuntimeError, match="power cut"):
        broken.fit(*script.made_up())
    assert [path.name for path in (tmp_path / "run").rglob("*.ckpt")] == ["last.ckpt"]
    resumed = script.fit(tmp_path / "run", kind=kind, select=select)
    whole = script.fit(tmp_path / "other", kind=kind, select=select)
    without = script.fit(None, kind=kind, select=select)
    for other in (whole, without):
        assert same(resumed, other)
        assert resumed.history_.equals(other.history_)
        assert resumed.threshold_ == other.threshold_
        assert np.array_equal(resumed.oof_scores_, other.oof_scores_, equal_nan=True)
    if kind == "stopping early" and select == "best":
        assert len(whole.history_) < 30


@pytest.mark.parametrize("kind", ["together", "stopping early"])
def test_a_finished_fit_returns_at_once(script, tmp_path, kind):
    first = script.fit(tmp_path / "run", kind=kind)
    stop = pl.callbacks.LambdaCallback(on_train_epoch_start=lambda *_: pytest.fail("it trains again"))
    again = script.classifier(tmp_path / "run", kind, callbacks=[stop]).fit(*script.made_up())
    assert same(first, again)
    assert first.history_.equals(again.history_)
    assert first.estimated_cost_ == again.estimated_cost_


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 5},
        {"net": {"learning_rate": 0.5}},
        {"net": {"every": 3}},
        {"cv": 4},
        {"cv": None},
        {"random_state": 2},
        {"target_threshold": 0.3},
        {"controller": {"n_standard_errors": 1.0}},
        {"controller": {"damping": 1.0}},
        {"controller": None},
        {"decide": "tuned"},
        {"decide": "unweighted"},
    ],
    ids=repr,
)
def test_other_data_or_settings_are_refused(script, tmp_path, change):
    script.fit(tmp_path / "run", net={"epochs": 1})
    net = {"epochs": 1} | change.pop("net", {})
    with pytest.raises(ValueError, match=r"the checkpoints in .*run belong to other data or settings; give an empty"):
        script.fit(tmp_path / "run", net=net, **change)


def squared(logits, labels, costs):
    return (torch.sigmoid(logits) - labels) ** 2


@pytest.mark.parametrize(
    "change",
    [
        {"costs": CostMatrix(fp=2, fn=5)},
        {"loss": "focal"},
        {"loss": "logit-adjusted"},
        {"loss": squared},
        {"resample": "oversample"},
        {"random_state": 2},
    ],
    ids=["costs", "net-focal", "logit-adjusted", "own loss", "oversample", "seed"],
)
def test_everything_about_a_method_belongs_to_its_fit(tmp_path, change):
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 3 == 0
    pairs = [(np.arange(40), np.arange(40, 60))]  # the same rows whatever the seed
    same = {"costs": CostMatrix(fp=1, fn=5), "learner": NeuralLearner(epochs=1), "cv": pairs, "random_state": 1}
    CostSensitiveClassifier(**same, resume=tmp_path).fit(X, y)
    CostSensitiveClassifier(**same, resume=tmp_path).fit(X, y)
    with pytest.raises(ValueError, match="belong to other data or settings"):
        CostSensitiveClassifier(**(same | change), resume=tmp_path).fit(X, y)


def test_costs_and_weights_belong_to_the_fit_too(script, tmp_path):
    X, y = script.made_up()
    settings = {"learner": script.NeuralLearner(epochs=1), "random_state": 1, "resume": tmp_path}
    clf = script.AdaCSLClassifier(script.CostMatrix(fp=1, fn=5), **settings)
    clf.fit(X, y, fn=np.linspace(1, 9, len(y)))
    clf.fit(X, y, fn=np.linspace(1, 9, len(y)))
    for other in ({"fn": np.linspace(9, 1, len(y))}, {}, {"sample_weight": np.full(len(y), 2.0)}):
        with pytest.raises(ValueError, match="belong to other data or settings"):
            clf.fit(X, y, **other)
    with pytest.raises(ValueError, match="belong to other data or settings"):
        script.AdaCSLClassifier(script.CostMatrix(fp=2, fn=5), **settings).fit(X, y, fn=np.linspace(1, 9, len(y)))


def test_what_is_shown_and_where_it_runs_may_change(script, tmp_path, capsys):
    first = script.fit(tmp_path, net={"epochs": 2})
    assert same(first, script.fit(tmp_path, net={"epochs": 2}, verbose=True, device="cpu"))


@pytest.mark.parametrize("damage", ["truncated", "empty", "flipped"])
def test_a_damaged_checkpoint_is_named(script, tmp_path, damage):
    script.fit(tmp_path, net={"epochs": 2})
    path = tmp_path / "together" / "last.ckpt"
    content = bytearray(path.read_bytes())
    if damage == "flipped":
        content[len(content) // 2] ^= 0xFF
    path.write_bytes(content[: {"truncated": len(content) // 2, "empty": 0, "flipped": len(content)}[damage]])
    with pytest.raises(ValueError, match=r"the checkpoint .*last\.ckpt is damaged .*delete its folder"):
        script.fit(tmp_path, net={"epochs": 2})
    shutil.rmtree(tmp_path / "together")
    assert same(
        script.fit(tmp_path, net={"epochs": 2}),
        script.fit(tmp_path / "other", net={"epochs": 2}),
    )


def sealed(path):
    """Write the digest that belongs to a file, as somebody who knows how would."""
    content = path.read_bytes()
    path.with_name("last.sha256").write_text(f"{hashlib.sha256(content).hexdigest()} {len(content)}\n")


ONE_EPOCH = {"kind": "one by one", "net": {"epochs": 1}}


@pytest.fixture(scope="module")
def two_fits(script, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fits")
    return folder, script.fit(folder / "mine", **ONE_EPOCH), script.fit(folder / "other", seed=1, **ONE_EPOCH)


@pytest.mark.parametrize("how", ["another fit", "another fit, no mark", "another net", "other code", "no mark"])
def test_a_checkpoint_belongs_to_its_fit_and_its_net(script, two_fits, tmp_path, how):
    fits, mine, _ = two_fits
    shutil.copytree(fits / "mine", tmp_path / "run")
    here, asked = tmp_path / "run" / "training-0", ONE_EPOCH
    if "mark" in how:
        (here / "fit.sha256").unlink()
    if "another" in how:
        source = fits / "mine/training-0/member-1" if how == "another net" else fits / "other/training-0/member-0"
        shutil.copytree(source, here / "member-0", dirs_exist_ok=True)
    if how == "other code":
        changed = lambda d: nn.Linear(d, 2)  # noqa: E731
        changed.__qualname__ = script.KINDS["one by one"]["net"]["module"].__qualname__
        asked = ONE_EPOCH | {"net": {"epochs": 1, "module": changed}}
    if how == "no mark":
        assert same(script.fit(tmp_path / "run", **asked), mine)
        return
    with pytest.raises(ValueError, match=r"^the checkpoint .*last\.ckpt belongs to other data or settings: delete its"):
        script.fit(tmp_path / "run", **asked)


def test_a_checkpoint_without_its_digest_is_refused(script, tmp_path):
    script.fit(tmp_path, net={"epochs": 1})
    (tmp_path / "together" / "last.sha256").unlink()
    with pytest.raises(ValueError, match=r"last\.ckpt is damaged \(last\.sha256 is missing, or not a regular file\)"):
        script.fit(tmp_path, net={"epochs": 1})


class Evil:
    executed = False

    def __reduce__(self):
        return setattr, (Evil, "executed", True)


def test_a_checkpoint_runs_no_code(script, tmp_path):
    script.fit(tmp_path, net={"epochs": 1})
    path = tmp_path / "together" / "last.ckpt"
    content = torch.load(path, weights_only=True)
    torch.save(content | {"callbacks": Evil()}, path)
    sealed(path)
    with pytest.raises(ValueError, match=r"^the checkpoint .* is damaged \(Weights only load failed.*\): delete"):
        script.fit(tmp_path, net={"epochs": 1})
    assert not Evil.executed


def test_a_process_killed_before_the_checkpoint_has_its_name_goes_on(script, tmp_path, monkeypatch):
    """Digests of what comes are written first; whoever is killed then, again and again, still has the old one."""
    begun, epochs = [], []

    @contextlib.contextmanager
    def killed(path):
        begun.append(path)
        with draft_of(path) as draft:
            yield draft
            if len(begun) % 2 == 0:
                raise RuntimeError("killed")

    monkeypatch.setattr("adacsl.storage.digests.draft_of", killed)
    settings = {"net": {"epochs": 3}}
    watch = pl.callbacks.LambdaCallback(on_train_epoch_start=lambda trainer, _: epochs.append(trainer.current_epoch))
    for _ in range(3):
        begun[:] = begun[:1]
        with pytest.raises(RuntimeError, match="killed"):
            script.classifier(tmp_path / "run", callbacks=[watch], **settings).fit(*script.made_up())
    monkeypatch.undo()
    assert epochs == [0, 1, 1, 1]
    assert same(script.fit(tmp_path / "run", **settings), script.fit(None, **settings))


def test_targets_that_train_one_after_another_have_folders_of_their_own(script, tmp_path):
    def fit(folder):
        clf = script.classifier(folder, "one by one", net={"epochs": 2}, target_threshold="auto")
        return clf.fit(*script.made_up())

    first, again, whole = fit(tmp_path), fit(tmp_path), fit(None)
    assert same(first, again)
    assert same(first, whole)
    assert len(list(tmp_path.glob("training-*/fit.sha256"))) == 8  # a second cross-fit of each
