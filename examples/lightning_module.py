# ruff: noqa: ANN001, ANN201, ANN204, D101, D102
"""Your own LightningModule made cost-sensitive by two changed lines.

python examples/lightning_module.py
"""

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from adacsl import CostMatrix
from adacsl.integrations.lightning import AdaCSLCallback
from adacsl.torch import AdaptiveCrossEntropy


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 1))
        self.loss = AdaptiveCrossEntropy(CostMatrix(fp=1, fn=8))  # 1: instead of nn.BCEWithLogitsLoss()

    def training_step(self, batch, _):
        return self.loss(self.net(batch[0]), batch[1])

    def validation_step(self, batch, _):
        self.log("val_loss", self.loss(self.net(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=3e-3)


pl.seed_everything(0, verbose=False)
x = torch.randn(3000, 10)
y = (x[:, 0] + x[:, 1] * x[:, 2] + torch.randn(3000) > 1.5).long()
train, val = (DataLoader(TensorDataset(x[part], y[part]), 100) for part in (slice(2000), slice(2000, 3000)))
trainer = pl.Trainer(max_epochs=8, callbacks=[AdaCSLCallback()], logger=False, enable_checkpointing=False)  # 2
trainer.fit(model := Model(), train, val)
print(model.loss.controller.to_frame()[["cost", "lambda_", "weight"]])
model.eval()
with torch.no_grad():
    print(model.loss.decide(model.net(x[2000:2010])))  # decisions
