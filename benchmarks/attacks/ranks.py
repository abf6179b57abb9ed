"""One process of several that fit together; the attacks on processes start, kill and deceive it.

python ranks.py OUT PROCESSES STRATEGY '{"rows": 301, "batch": 33, "differ": "", "resume": null, "stop": null}'

Each process says when an epoch begins, and at the end writes the scores to OUT-RANK.npy.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from torch import nn

from adacsl import AdaCSLClassifier, CostMatrix
from adacsl.integrations.lightning import ShardedNet
from adacsl.neural import NeuralLearner

USUAL: dict[str, Any] = {
    "rows": 301, "batch": 33, "epochs": 4, "cv": None, "default": False, "slow": 0.0, "differ": "", "resume": None,
    "stop": None, "timeout": 120,
}  # fmt: skip


class Say(pl.Callback):
    """Tells who begins which epoch, slowly; stops before one of them."""

    def __init__(self, seconds: float, stop: int | None) -> None:
        self.seconds, self.stop = seconds, stop

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Say so."""
        sys.stdout.write(f"rank {trainer.global_rank} pid {os.getpid()} epoch {trainer.current_epoch}\n")
        sys.stdout.flush()
        time.sleep(self.seconds)
        if trainer.current_epoch == self.stop:
            sys.exit(3)


def net(features: int) -> nn.Module:
    """Return a net without dropout, whose random numbers each process draws for its own rows."""
    return nn.Sequential(nn.Linear(features, 8), nn.ReLU(), nn.Linear(8, 1))


def fit(processes: int, strategy: str, given: dict[str, Any]) -> Any:
    """Return scores of all rows, and lambda of each epoch."""
    asked = USUAL | given
    rng = np.random.default_rng(0)
    y = (rng.random(asked["rows"]) < 0.3).astype(int)
    X = rng.normal(size=(asked["rows"], 4))
    X[:, 0] += y
    other = asked["differ"] if os.environ.get("LOCAL_RANK", "0") == "1" else ""
    trainer: dict[str, Any] = {"callbacks": [Say(asked["slow"], asked["stop"])], "accelerator": "cpu"}
    if processes > 1:
        waits = datetime.timedelta(seconds=asked["timeout"])
        named = {"ddp": pl.strategies.DDPStrategy, "fsdp": ShardedNet}[strategy](timeout=waits)
        trainer |= {"strategy": named, "devices": processes}
    learner = {"epochs": asked["epochs"], "batch_size": asked["batch"], "trainer": trainer}
    learner |= {} if asked["default"] else {"module": net}
    if other == "lr":
        learner["learning_rate"] = 0.5
    changed = {"values": (X * 1.5, y), "fewer": (X[:-9], y[:-9]), "labels": (X, 1 - y)}.get(other, (X, y))
    costs, seed = CostMatrix(fp=1, fn=7 if other == "costs" else 5), 1 if other == "seed" else 0
    clf = AdaCSLClassifier(
        costs, learner=NeuralLearner(**learner), cv=asked["cv"], random_state=seed, resume=asked["resume"]
    )
    clf.fit(*changed)
    return clf.predict_proba(X)[:, 1], clf.history_["lambda"].to_numpy()


def main(out: str, processes: str, strategy: str, given: str) -> None:
    torch.set_num_threads(1)
    scores, weights = fit(int(processes), strategy, json.loads(given))
    np.save(Path(f"{out}-{os.environ.get('LOCAL_RANK', '0')}.npy"), np.concatenate((scores, weights)))
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
