"""CostMetric, and training with Lightning on maps with ignored pixels and several labels: in one process and in two.

Usage: python processes.py FOLDER; writes FOLDER/PROCESSES-RANK.json for one and two processes. They are forked from one
that has imported Lightning, which takes longer than all the rest.
"""

import json
import os
import socket
import sys
import warnings
from pathlib import Path

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

from adacsl import CostMatrix
from adacsl.integrations.lightning import AdaCSLCallback
from adacsl.integrations.torchmetrics import CostMetric
from adacsl.torch import AdaptiveCrossEntropy

TWO = CostMatrix(fp=1, fn=8)
THREE = CostMatrix.from_array([[0, 9, 2], [1, 0, 1], [3, 9, 0]], rows="predicted")
LABELS = [TWO, CostMatrix(fp=3, fn=1)]
TRAINED = {"map": (TWO, 1, True), "map of three classes": (THREE, 3, True), "several labels": (LABELS, 2, False)}


def measured(rank, world):
    """Return the values of metrics whose samples are divided between the processes."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(400, 3, generator=generator)
    labels = (logits + torch.randn(400, 3, generator=generator)).argmax(1)
    several = (logits[:, :2] + torch.randn(400, 2, generator=generator) > 0.5).float()
    cases = {
        "two": (CostMetric(TWO), logits[:, 0], (labels == 1).long()),
        "folded": (CostMetric(TWO, kept=150), logits[:, 0], (labels == 1).long()),
        "three": (CostMetric(THREE), logits, labels),
        "labels": (CostMetric(LABELS), logits[:, :2], several),
        "one is empty": (CostMetric(LABELS), logits[:, :2], several),
    }
    result = {}
    for name, (metric, z, y) in cases.items():
        # shares of different sizes: of "folded" only the first process has more than it holds
        border = 400 if name == "one is empty" else 300
        rows = torch.arange(border) if rank == 0 else torch.arange(border, 400)
        for part in (rows if world == 2 else torch.arange(400)).split(50):
            if len(part):
                metric.update(z[part], y[part])
        result[name] = {key: float(value) for key, value in metric.compute().items()}
    return result


class Model(pl.LightningModule):
    def __init__(self, costs, outputs, dense):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Conv2d(2, outputs, 1) if dense else nn.Linear(2, outputs)
        self.loss, self.costs = AdaptiveCrossEntropy(costs, ignore_index=-100), []

    def training_step(self, batch, _):
        return self.loss(self.net(batch[0]), batch[1])

    def validation_step(self, batch, _):
        self.loss(self.net(batch[0]), batch[1])

    def on_validation_end(self):
        self.costs.append(float(self.trainer.callback_metrics["val_cost"]))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def data(outputs, dense):
    generator = torch.Generator().manual_seed(1)
    shape = (41, 2, 4, 4) if dense else (41, 2)
    x = torch.randn(shape, generator=generator)
    noisy = x + 0.7 * torch.randn(shape, generator=generator)
    y = (noisy > 0.4).float() if not dense else (noisy[:, 0] > 0.4).long() + (outputs > 1) * (noisy[:, 1] > 0.5).long()
    # in every sample the same number of ignored ones: the mean over two processes is that of one
    y.view(41, -1)[:, 0] = -100
    if not dense:
        y[:, 0] = (noisy[:, 0] > 0.4).float()
        y[torch.arange(41) % 4 < 2, 1] = -100
    return TensorDataset(x, y)


def trained(world):
    """Return lambdas, costs and weights of trainings."""
    result = {}
    for name, (costs, outputs, dense) in TRAINED.items():
        model, rows = Model(costs, outputs, dense), data(outputs, dense)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer = pl.Trainer(
                max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                enable_model_summary=False, callbacks=[AdaCSLCallback()], num_sanity_val_steps=0,
                **({"strategy": "ddp", "devices": world} if world > 1 else {}),
            )  # fmt: skip
            trainer.fit(model, DataLoader(Subset(rows, range(40)), 40 // world), DataLoader(rows, 7))
        result[name] = {
            "lambdas": torch.as_tensor(model.loss.controller.lambdas).tolist(),
            "costs": model.costs,
            "weights": [float(value) for p in model.net.parameters() for value in p.reshape(-1)],
        }
    return result


def work(rank, world, folder, port):
    """What each process does; the variables are those that a launcher sets."""
    torch.set_num_threads(1)
    if world > 1:
        where = {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "WORLD_SIZE": world, "RANK": rank, "LOCAL_RANK": rank}
        os.environ |= {name: str(value) for name, value in where.items()}
        torch.distributed.init_process_group("gloo")
    results = {"measured": measured(rank, world), "trained": trained(world)}
    Path(folder, f"{world}-{rank}.json").write_text(json.dumps(results))
    if world > 1:
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    for processes in (1, 2):
        arguments = (processes, sys.argv[1], free)
        torch.multiprocessing.start_processes(work, arguments, processes, start_method="fork")
