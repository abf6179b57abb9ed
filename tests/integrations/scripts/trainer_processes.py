"""A Trainer whose logits are frozen, on any number of processes; each writes its lambdas and how many samples it saw.

Usage: python trainer_processes.py FOLDER PROCESSES. They are forked from one that has imported the Trainer, which takes
longer than all the rest.
"""

import json
import os
import socket
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

from adacsl import AdaCSLController, CostMatrix
from adacsl.integrations.transformers import AdaCSLCallback

EPOCHS, ROWS = 3, 53  # an odd number: two processes pad the last batches


def frozen():
    rng = np.random.default_rng(0)
    labels = (rng.random(ROWS) < 0.3).astype(int)
    logits = [rng.normal(1.5 * labels - 0.7 + 0.4 * epoch, 1.0) for epoch in range(EPOCHS)]
    return np.stack(logits, axis=1).astype(np.float32), labels


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(EPOCHS, 1, bias=False)

    def forward(self, x, labels=None):
        return {"logits": self.net(x)}


class Pick(TrainerCallback):
    """Let the network give the logits of this epoch."""

    def on_epoch_begin(self, args, state, control, model=None, **kwargs):
        weight = getattr(model, "module", model).net.weight
        with torch.no_grad():
            weight.zero_()
            weight[0, round(state.epoch)] = 1.0


def work(rank, folder, processes, port):
    """What each process does; the variables are those that torchrun sets."""
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": rank, "LOCAL_RANK": rank}
    sizes = {"WORLD_SIZE": processes, "LOCAL_WORLD_SIZE": processes}
    os.environ.update({name: str(value) for name, value in (where | sizes).items()})
    x, y = frozen()
    rows = [{"x": a, "labels": int(b)} for a, b in zip(torch.from_numpy(x), y, strict=True)]
    cost = AdaCSLCallback(AdaCSLController(CostMatrix(fp=1, fn=5)))
    args = TrainingArguments(
        folder, num_train_epochs=EPOCHS, per_device_train_batch_size=7, per_device_eval_batch_size=8, learning_rate=0.0,
        eval_strategy="epoch", save_strategy="no", logging_strategy="no", report_to=[], disable_tqdm=True,
        use_cpu=True, ddp_backend="gloo", remove_unused_columns=False,
    )  # fmt: skip
    Trainer(
        Model(), args, train_dataset=rows, eval_dataset=rows, callbacks=[Pick(), cost],
        compute_loss_func=cost.loss, compute_metrics=cost.metrics,
    ).train()  # fmt: skip
    result = [[step.lambda_, sum(step.sizes)] for step in cost.controller.history]
    # each to a file of its own: lines of two processes may mix
    Path(folder, f"result-{rank}.json").write_text(json.dumps(result))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def main(folder, processes):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    torch.multiprocessing.start_processes(work, (folder, processes, port), processes, start_method="fork")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
