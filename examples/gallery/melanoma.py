"""Melanoma: a missed tumour costs twenty needless biopsies.

The adaptive loss in a PyTorch loop. The images are drawn, not photographed: dark spots, malignant ones with ragged
borders. The figures say nothing about medicine; [evidence](../evidence.md#adaptation-on-images) has photographs.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import Tensor, nn

from adacsl import CostMatrix, find_threshold
from adacsl.torch import AdaptiveCrossEntropy

costs, rng = CostMatrix(fp=1, fn=20), np.random.default_rng(0)

# %%
# Images of 24 x 24 pixels


def lesions(n: int) -> tuple[Tensor, Tensor]:
    malignant = (rng.random(n) < 0.12).astype(np.float32)
    row, column = np.mgrid[:24, :24] - 11.5
    waves = (0.4 + 1.1 * malignant)[:, None, None] * np.sin(
        7 * np.arctan2(row, column) + rng.uniform(0, 6.3, (n, 1, 1))
    )
    spots = 1 / (1 + np.exp(np.hypot(row, column) - rng.uniform(5, 8, (n, 1, 1)) - waves))
    return torch.from_numpy(spots + rng.normal(0, 0.3, spots.shape)).float()[:, None], torch.from_numpy(malignant)


(x, y), (x_val, y_val), (x_new, y_new) = map(lesions, (1200, 500, 3000))

# %%
# One training loop, two losses
#
# After each epoch the controller measures the cost-optimal threshold on validation images, and corrects the weight.


def train(loss: nn.Module) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 16, 5, 2), nn.ReLU(), nn.Flatten(), nn.Linear(1600, 64), nn.ReLU())
    net.extend([nn.Linear(64, 1), nn.Flatten(0)])
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
    for _ in range(15):
        net.train()
        for batch in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            loss(net(x[batch]), y[batch]).backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            logits = net(x_val), net(x_new)
        if isinstance(loss, AdaptiveCrossEntropy):
            loss.adapt(logits[0], y_val)  # once per epoch
    return logits


# %%
# Cost on new images
#
# At the Bayes threshold over-confident scores overlook tumours. A tuned threshold repairs most of that: try it first.

plain_val, plain = train(nn.BCEWithLogitsLoss())
adapted = train(loss := AdaptiveCrossEntropy(costs))[1]
tuned = find_threshold(plain_val.sigmoid().numpy(), y_val.numpy().astype(int), costs).value
p, labels = plain.sigmoid().numpy(), y_new.numpy().astype(int)
ways = {"all malignant": p > -1, "threshold 0.5": p > 0.5, "Bayes threshold": p > costs.threshold}
ways |= {"tuned threshold": p > tuned, "AdaCSL": loss.decide(adapted).numpy() == 1}
for name, positive in ways.items():
    cost, missed = costs.mean(labels, positive.astype(int)), (labels * ~positive).sum()
    print(f"{name:16} cost {cost:.3f}, missed {missed}")

# %%
# Benign above, malignant below

figure, axes = plt.subplots(2, 4, figsize=(6.4, 3.4))
for axis, n in zip(axes.flat, [*np.flatnonzero(labels == 0)[:4], *np.flatnonzero(labels)[:4]], strict=True):
    axis.imshow(x_new[n, 0].numpy(), cmap="copper_r")
    axis.axis("off")
