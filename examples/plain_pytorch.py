"""A plain PyTorch loop made cost-sensitive by two changed lines.

python examples/plain_pytorch.py
"""

import torch
from torch import nn

from adacsl import CostMatrix
from adacsl.torch import AdaptiveCrossEntropy

torch.manual_seed(0)
x = torch.randn(3000, 10)
y = (x[:, 0] + x[:, 1] * x[:, 2] + torch.randn(3000) > 1.5).long()  # about one in five is positive
train, val = slice(0, 2000), slice(2000, 3000)

costs = CostMatrix(fp=1, fn=8)  # a false negative costs as much as eight false positives
net = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 1))
loss = AdaptiveCrossEntropy(costs)  # 1: instead of nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)

for epoch in range(1, 16):
    for batch in torch.randperm(2000).split(64):
        optimizer.zero_grad()
        loss(net(x[batch]), y[batch]).backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        step = loss.adapt(net(x[val]), y[val])  # 2: once per epoch, on validation data
    net.train()
    print(f"epoch {epoch:2}  T {step.thresholds[0]:.3f}  lambda {step.lambda_:.3f}  validation cost {step.cost:.3f}")

net.eval()
with torch.no_grad():
    decisions = loss.decide(net(x[val]))
print(f"mean cost {costs.mean(y[val], decisions):.3f}, {int(decisions.sum())} of {len(decisions)} decided positive")
