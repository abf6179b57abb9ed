"""An interrupted fit is resumed, and ends with exactly the weights of an uninterrupted one."""

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


TWO_EPOCHS = {"net": {"epochs": 2}}


@pytest.fixture(scope="module")
def finished(script, tmp_path_factory):
    """A finished fit, and its folder."""
    folder = tmp_path_factory.mktemp("finished")
    return script.fit(folder, **TWO_EPOCHS), folder


@pytest.fixture
def copied(finished, tmp_path):
    """A copy of the folder of a finished fit."""
    return shutil.copytree(finished[1], tmp_path / "copied")


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
def test_a_killed_fit_is_resumed(script, tmp_path, kind):
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
    assert 0 < epochs[0] <= 3  # it did not start again
    assert len(epochs) < len(every)
    assert resumed.history_.equals(whole.history_)
    assert np.array_equal(resumed.oof_scores_, whole.oof_scores_)
    assert resumed.estimated_cost_ == whole.estimated_cost_


@pytest.mark.weekly
@pytest.mark.slow
def test_control_c_ends_cleanly_and_can_be_resumed(script, tmp_path):
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


def test_an_own_exit_of_the_user_stays_one(script):
    clf = script.classifier(None, callbacks=[Stop(1, SystemExit(7))])
    with pytest.raises(SystemExit, match="7"):
        clf.fit(*script.made_up())


@pytest.mark.parametrize(("kind", "select"), [("together", "last"), ("one by one", "best"), ("stopping early", "best")])
def test_a_crashed_fit_is_resumed(script, tmp_path, kind, select):
    stop = Stop(3, RuntimeError("power cut"))
    with pytest.raises(RuntimeError, match="power cut"):
        script.classifier(tmp_path, kind, callbacks=[stop], select=select).fit(*script.made_up())
    assert [path.name for path in tmp_path.rglob("*.ckpt")] == ["last.ckpt"]
    resumed, whole = (script.fit(folder, kind=kind, select=select) for folder in (tmp_path, None))
    assert same(resumed, whole)
    assert resumed.history_.equals(whole.history_)
    assert resumed.threshold_ == whole.threshold_
    assert np.array_equal(resumed.oof_scores_, whole.oof_scores_, equal_nan=True)
    if kind == "stopping early":
        assert len(whole.history_) < 30


def test_a_finished_fit_returns_at_once(script, finished, copied):
    stop = pl.callbacks.LambdaCallback(on_train_epoch_start=lambda *_: pytest.fail("it trains again"))
    first, again = finished[0], script.classifier(copied, callbacks=[stop], **TWO_EPOCHS).fit(*script.made_up())
    assert same(first, again)
    assert first.history_.equals(again.history_)
    assert first.estimated_cost_ == again.estimated_cost_
    # what is shown and where it runs may change
    assert same(first, script.fit(copied, **TWO_EPOCHS, verbose=True, device="cpu"))


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 5}, {"net": {"learning_rate": 0.5}}, {"net": {"every": 3}}, {"cv": 4}, {"cv": None},
        {"random_state": 2}, {"target_threshold": 0.3}, {"controller": {"n_standard_errors": 1.0}},
        {"controller": {"damping": 1.0}}, {"controller": None}, {"decide": "tuned"}, {"decide": "unweighted"},
    ],
    ids=repr,
)  # fmt: skip
def test_other_data_or_settings_are_refused(script, finished, change):
    net = {"epochs": 2} | change.get("net", {})
    with pytest.raises(ValueError, match=r"the checkpoints in .* belong to other data or settings; give an empty"):
        script.fit(finished[1], **(change | {"net": net}))


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
    ids=["costs", "focal", "logit-adjusted", "own loss", "oversample", "seed"],
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


@pytest.mark.parametrize("damage", ["truncated", "empty", "flipped"])
def test_a_damaged_checkpoint_is_named(script, finished, copied, damage):
    path = copied / "together" / "last.ckpt"
    content = bytearray(path.read_bytes())
    if damage == "flipped":
        content[len(content) // 2] ^= 0xFF
    path.write_bytes(content[: {"truncated": len(content) // 2, "empty": 0, "flipped": len(content)}[damage]])
    with pytest.raises(ValueError, match=r"the checkpoint .*last\.ckpt is damaged .*delete its folder"):
        script.fit(copied, **TWO_EPOCHS)
    if damage == "flipped":
        shutil.rmtree(copied / "together")
        assert same(script.fit(copied, **TWO_EPOCHS), finished[0])


def sealed(path):
    """Write the digest that belongs to a file, as an attacker would."""
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


def test_a_checkpoint_without_its_digest_is_refused(script, copied):
    (copied / "together" / "last.sha256").unlink()
    with pytest.raises(ValueError, match=r"last\.ckpt is damaged \(last\.sha256 is missing, or not a regular file\)"):
        script.fit(copied, **TWO_EPOCHS)


class Evil:
    executed = False

    def __reduce__(self):
        return setattr, (Evil, "executed", True)


def test_a_checkpoint_runs_no_code(script, copied):
    path = copied / "together" / "last.ckpt"
    content = torch.load(path, weights_only=True)
    torch.save(content | {"callbacks": Evil()}, path)
    sealed(path)
    with pytest.raises(ValueError, match=r"^the checkpoint .* is damaged \(Weights only load failed.*\): delete"):
        script.fit(copied, **TWO_EPOCHS)
    assert not Evil.executed


def test_a_process_killed_before_the_checkpoint_has_its_name_is_resumed(script, tmp_path, monkeypatch):
    """The digest of the next checkpoint is written first; a process killed then, repeatedly, still has the old one."""
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
    first, again, whole = (
        script.fit(folder, kind="one by one", net={"epochs": 1}, target_threshold="auto")
        for folder in (tmp_path, tmp_path, None)
    )
    assert same(first, again)
    assert same(first, whole)
    assert len(list(tmp_path.glob("training-*/fit.sha256"))) == 8  # a second cross-fit of each
