"""One fit on several processes; every process ends with the same classifier.

python examples/ddp.py                            # Lightning starts the second process
torchrun --nproc-per-node 2 examples/ddp.py       # torchrun starts both

Here both run on the CPU of one machine. With GPUs say devices=-1 and leave the accelerator out; on several machines add
num_nodes (docs/integrations/lightning.md).
"""

import numpy as np
import torch
from lightning.pytorch.utilities import rank_zero_only
from torch import nn

from adacsl import AdaCSLClassifier, CostMatrix
from adacsl.neural import NeuralLearner


def net(n_features: int) -> nn.Module:
    return nn.Sequential(nn.Linear(n_features, 32), nn.ReLU(), nn.Linear(32, 1))


def main() -> None:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)  # every process needs the same data
    X = rng.normal(size=(2000, 8))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=2000) > 1.5).astype(int)
    trainer = {"strategy": "ddp", "accelerator": "cpu", "devices": 2}
    settings = {"module": net, "epochs": 6, "batch_size": 64, "trainer": trainer}
    clf = AdaCSLClassifier(CostMatrix(fp=1, fn=8), learner=NeuralLearner(**settings), random_state=0).fit(X, y)
    rank_zero_only(print)(clf.estimated_cost_, clf.history_["lambda"].round(3).tolist())  # save() likewise
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
