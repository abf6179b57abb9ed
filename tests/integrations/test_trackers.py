"""The history reaches TensorBoard, MLflow and Weights & Biases through what the frameworks offer; nothing is sent."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from adacsl import AdaCSLController, CostMatrix
from adacsl.torch import AdaptiveCrossEntropy

COSTS = CostMatrix(fp=1, fn=8)
torch.manual_seed(0)
X = torch.randn(120, 4)
Y = (X[:, 0] + 0.5 * torch.randn(120) > 0.7).long()

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers"),
    pytest.mark.filterwarnings("ignore:The number of training batches"),
]


@pytest.fixture
def lightning():
    """Fit with a logger; return the controller's history."""
    import lightning.pytorch as pl

    from adacsl.integrations.lightning import AdaCSLCallback

    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(1)
            self.net, self.loss = nn.Linear(4, 1), AdaptiveCrossEntropy(COSTS)

        def training_step(self, batch, _):
            return self.loss(self.net(batch[0]), batch[1])

        def validation_step(self, batch, _):
            self.loss(self.net(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.3)

    def fit(logger):
        model, loader = Model(), DataLoader(TensorDataset(X, Y), 40)
        trainer = pl.Trainer(
            max_epochs=3, accelerator="cpu", logger=logger, callbacks=[AdaCSLCallback()], enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False,
        )  # fmt: skip
        trainer.fit(model, loader, loader)
        return model.loss.controller.history

    return SimpleNamespace(fit=fit)


def scalars(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (file,) = folder.rglob("events.out.tfevents*")
    events = EventAccumulator(str(file))
    events.Reload()
    return {name: [event.value for event in events.Scalars(name)] for name in events.Tags()["scalars"]}


def expect(steps):
    return {
        "val_cost": [s.cost for s in steps],
        "lambda": [s.lambda_ for s in steps],
        "threshold": [s.thresholds[0] for s in steps],
    }


def test_lightning_to_tensorboard(lightning, tmp_path):
    pytest.importorskip("tensorboard")
    from lightning.pytorch.loggers import TensorBoardLogger

    steps = lightning.fit(TensorBoardLogger(tmp_path))
    result = scalars(tmp_path)
    for name, values in expect(steps).items():
        assert result[name] == pytest.approx(values, rel=1e-6)


def test_lightning_to_mlflow(lightning, tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    from lightning.pytorch.loggers import MLFlowLogger

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    logger = MLFlowLogger("costs", tracking_uri=tmp_path.as_uri())
    steps = lightning.fit(logger)
    for name, values in expect(steps).items():
        result = [metric.value for metric in logger.experiment.get_metric_history(logger.run_id, name)]
        assert result == pytest.approx(values, rel=1e-6)


def offline(monkeypatch, folder):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_DIR", str(folder))
    return pytest.importorskip("wandb")


@pytest.mark.weekly
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_lightning_to_weights_and_biases(lightning, tmp_path, monkeypatch):
    wandb = offline(monkeypatch, tmp_path)
    from lightning.pytorch.loggers import WandbLogger

    logger = WandbLogger(project="costs", offline=True, save_dir=tmp_path)
    steps = lightning.fit(logger)
    summary = dict(logger.experiment.summary)
    wandb.finish()
    for name, values in expect(steps).items():
        assert summary[name] == pytest.approx(values[-1], rel=1e-6)
    assert list(tmp_path.rglob("*.wandb"))


def test_skorch_to_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    from skorch import NeuralNetBinaryClassifier
    from skorch.callbacks import TensorBoard
    from torch.utils.tensorboard import SummaryWriter

    from adacsl.integrations.skorch import AdaCSLCallback
    from adacsl.integrations.skorch import AdaptiveCrossEntropy as Criterion

    writer = SummaryWriter(tmp_path)
    net = NeuralNetBinaryClassifier(
        nn.Linear(4, 1), criterion=Criterion, criterion__costs=COSTS, max_epochs=3, verbose=0,
        callbacks=[AdaCSLCallback(), TensorBoard(writer)],
    ).fit(X.numpy(), Y.float().numpy())  # fmt: skip
    writer.close()
    result = scalars(tmp_path)
    assert result["lambda"] == pytest.approx(net.history[:, "lambda"], rel=1e-6)
    assert result["val_cost"] == pytest.approx(net.history[:, "val_cost"], rel=1e-6)


def test_transformers_to_tensorboard_and_mlflow(tmp_path, monkeypatch):
    pytest.importorskip("tensorboard")
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "costs")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "tb"))
    from transformers import Trainer, TrainingArguments

    from adacsl.integrations.transformers import AdaCSLCallback

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(4, 1)

        def forward(self, x, labels=None):
            return {"logits": self.net(x)}

    cost = AdaCSLCallback(AdaCSLController(COSTS))
    args = TrainingArguments(
        str(tmp_path), num_train_epochs=2, eval_strategy="epoch", save_strategy="no", use_cpu=True, disable_tqdm=True,
        report_to=["tensorboard", "mlflow"], remove_unused_columns=False, run_name="costs",
    )  # fmt: skip
    rows = [{"x": a, "labels": b} for a, b in zip(X, Y, strict=True)]
    Trainer(
        Model(), args, train_dataset=rows, eval_dataset=rows, callbacks=[cost],
        compute_loss_func=cost.loss, compute_metrics=cost.metrics,
    ).train()  # fmt: skip
    expected = [s.lambda_ for s in cost.controller.history]
    assert scalars(tmp_path / "tb")["eval/lambda"] == pytest.approx(expected, rel=1e-6)
    runs = mlflow.search_runs(search_all_experiments=True, output_format="list")
    assert runs[0].data.metrics["eval_lambda"] == pytest.approx(expected[-1])
    mlflow.end_run()


@pytest.fixture(autouse=True, scope="module")
def nothing_is_left_in_the_working_folder():
    names = [name for name in ("wandb", "mlruns", "lightning_logs", "runs") if not Path(name).exists()]
    yield
    assert not [name for name in names if Path(name).exists()]
