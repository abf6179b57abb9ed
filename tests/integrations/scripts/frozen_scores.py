"""Trains a module whose logits depend on sample and epoch only, on any number of processes.

Usage: python frozen_scores.py FOLDER PROCESSES...; for each number given, as many processes are started, and each
writes its lambda histories to FOLDER/PROCESSES-RANK.json. They are forked from one that has imported Lightning, which
takes longer than all the rest.
"""

import json
import os
import socket
import sys
import warnings
from pathlib import Path

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, Dataset

from adacsl import CostMatrix
from adacsl.adaptive import UniformBins
from adacsl.integrations.lightning import AdaCSLCallback
from adacsl.torch import AdaptiveCrossEntropy

EPOCHS = 4
SCENARIOS = {
    "in order": {"n": 103},  # 103 = 4 * 25 + 3 = 2 * 51 + 1: both 2 and 4 processes pad
    "shuffled": {"n": 103, "shuffle": True},
    "own batches": {"n": 103, "batch_sampler": True},
    "tiny": {"n": 9},
    "weighted": {"n": 103, "weighted": True},
}


def logits_of(rows, epoch):
    return 3.0 * torch.sin(rows.double() * 12.9898 + 0.7 * epoch).float() + 0.3 * epoch


def labels_of(rows):
    return (torch.sin(rows.double() * 12.9898) + torch.cos(rows.double() * 78.233) > 0.6).long()


def weights_of(rows):
    return 1.0 + rows % 4


class Rows(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return index


class Frozen(pl.LightningModule):
    def __init__(self, n, shuffle=False, batch_sampler=False, weighted=False):
        super().__init__()
        self.n, self.shuffle, self.batch_sampler, self.weighted = n, shuffle, batch_sampler, weighted
        self.scale = torch.nn.Parameter(torch.ones(()))
        self.loss = AdaptiveCrossEntropy(CostMatrix(fp=1, fn=5), partition=UniformBins(3))
        self.validated = []

    def train_dataloader(self):
        return DataLoader(Rows(8), batch_size=2)

    def val_dataloader(self):
        if self.batch_sampler:
            sampler = torch.utils.data.SequentialSampler(Rows(self.n))
            return DataLoader(Rows(self.n), batch_sampler=torch.utils.data.BatchSampler(sampler, 4, drop_last=False))
        return DataLoader(Rows(self.n), batch_size=7, shuffle=self.shuffle)

    def training_step(self, rows, batch_idx):
        return self.loss(logits_of(rows, self.current_epoch) * self.scale, labels_of(rows))

    def validation_step(self, rows, batch_idx):
        self.validated += rows.tolist()
        weight = weights_of(rows).float() if self.weighted else None
        self.loss(logits_of(rows, self.current_epoch), labels_of(rows), sample_weight=weight)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)


def run(processes, n, shuffle=False, batch_sampler=False, weighted=False):
    model = Frozen(n, shuffle, batch_sampler, weighted)
    callback = AdaCSLCallback()
    trainer = pl.Trainer(
        max_epochs=EPOCHS, accelerator="cpu", devices=processes, strategy="ddp" if processes > 1 else "auto",
        callbacks=[callback], logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, num_sanity_val_steps=1,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.fit(model)
    history = model.loss.controller.history
    return {
        "lambda": [step.lambda_ for step in history],
        "cost": [step.cost for step in history],
        "thresholds": [list(step.thresholds) for step in history],
        "sizes": [list(step.sizes) for step in history],
        "logged": {name: float(value) for name, value in trainer.callback_metrics.items()},
        "validated": len(model.validated),
        "rank": trainer.global_rank,
    }


def work(rank, folder, processes, port):
    """What each process does; the variables are those that a launcher sets."""
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "NODE_RANK": 0, "LOCAL_RANK": rank}
    os.environ.update({name: str(value) for name, value in where.items()})
    torch.set_num_threads(1)
    results = {name: run(processes, **settings) for name, settings in SCENARIOS.items()}
    assert {result["rank"] for result in results.values()} == {rank}
    (Path(folder) / f"{processes}-{rank}.json").write_text(json.dumps(results))
    torch.distributed.barrier()  # processes that part without a word may abort at exit
    torch.distributed.destroy_process_group()


def main(folder, *numbers):
    for processes in map(int, numbers):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        torch.multiprocessing.start_processes(work, (folder, processes, port), processes, start_method="fork")


if __name__ == "__main__":
    main(*sys.argv[1:])
