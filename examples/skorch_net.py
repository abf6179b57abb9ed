"""A skorch net made cost-sensitive by its criterion and one callback.

python examples/skorch_net.py
"""

import numpy as np
import torch
from skorch import NeuralNetBinaryClassifier
from skorch.callbacks import EarlyStopping
from torch import nn

from adacsl import CostMatrix
from adacsl.integrations.skorch import AdaCSLCallback, AdaptiveCrossEntropy

rng = np.random.default_rng(0)
X = rng.normal(size=(3000, 10)).astype(np.float32)
y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=3000) > 1.5).astype(np.float32)

torch.manual_seed(0)
net = NeuralNetBinaryClassifier(
    nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 1)),
    criterion=AdaptiveCrossEntropy,  # 1: instead of nn.BCEWithLogitsLoss
    criterion__costs=CostMatrix(fp=1, fn=8),
    callbacks=[AdaCSLCallback(), EarlyStopping(monitor="val_cost", patience=5)],  # 2
    optimizer=torch.optim.Adam, lr=3e-3, max_epochs=15,
)  # fmt: skip
net.fit(X, y)
print(net.predict_proba(X[:3]))  # raw scores
print(net.criterion_.decide(net.forward(X[:3])))  # decisions
print(net.criterion_.controller.correct(net.predict_proba(X[:3])[:, 1]))  # probabilities
