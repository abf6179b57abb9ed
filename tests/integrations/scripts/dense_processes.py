"""Maps with ignored pixels and several labels under DDP: gradients, lambdas and logged costs, as JSON.

Usage: python dense_processes.py FOLDER; writes FOLDER/PROCESSES-RANK.json for one and two processes.
"""

import json
import os
import sys
import warnings
from pathlib import Path

import lightning.pytorch as pl
import torch
import torch.multiprocessing as mp
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from adacsl import CostMatrix
from adacsl.integrations.lightning import AdaCSLCallback
from adacsl.torch import AdaptiveCrossEntropy

THREE = CostMatrix.from_array([[0, 9, 2], [1, 0, 1], [3, 9, 0]], rows="predicted")
CASES = {
    "map": (CostMatrix(fp=1, fn=8), 1, True), "map of three classes": (THREE, 3, True),
    "several labels": ([CostMatrix(fp=1, fn=8), CostMatrix(fp=3, fn=1)], 2, False),
}  # fmt: skip


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


def main(rank, world, folder):
    if world > 1:
        os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": "29517", "WORLD_SIZE": str(world)}
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world
        )
    result = {}
    for name, (costs, outputs, dense) in CASES.items():
        model, rows = Model(costs, outputs, dense), data(outputs, dense)
        train = torch.utils.data.Subset(rows, range(40))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer = pl.Trainer(
                max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                enable_model_summary=False, callbacks=[AdaCSLCallback()], num_sanity_val_steps=0,
                **({"strategy": "ddp", "devices": world} if world > 1 else {}),
            )  # fmt: skip
            trainer.fit(model, DataLoader(train, 40 // world), DataLoader(rows, 7))
        controller = model.loss.controller
        result[name] = {
            "lambdas": torch.as_tensor(controller.lambdas).tolist(),
            "costs": model.costs,
            "weights": [float(value) for p in model.net.parameters() for value in p.reshape(-1)],
        }
    Path(folder, f"{world}-{rank}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(0, 1, sys.argv[1])
    mp.spawn(main, args=(2, sys.argv[1]), nprocs=2)
