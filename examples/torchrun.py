"""A plain PyTorch loop on several processes, without Lightning: every process has the same lambda.

torchrun --nproc-per-node 2 examples/torchrun.py
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from adacsl import CostMatrix
from adacsl.torch import AdaptiveCrossEntropy

dist.init_process_group("gloo")  # "nccl" on GPUs
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)  # every process draws the same data, net and order
x = torch.randn(3000, 10)
y = (x[:, 0] + x[:, 1] * x[:, 2] + torch.randn(3000) > 1.5).long()
net = DistributedDataParallel(nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 1)))
loss = AdaptiveCrossEntropy(CostMatrix(fp=1, fn=8))  # 1: instead of nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
for epoch in range(1, 7):
    for batch in torch.randperm(2000).split(80):
        optimizer.zero_grad()
        loss(net(x[batch[rank::world]]), y[batch[rank::world]]).backward()
        optimizer.step()
    share, parts = torch.arange(2000, 3000)[rank::world], [None] * world
    net.eval()
    with torch.no_grad():
        dist.all_gather_object(parts, (net(x[share]), y[share]))  # each sample once, nothing padded
    net.train()
    step = loss.adapt(*(torch.cat(column) for column in zip(*parts, strict=True)))  # 2: the whole validation set
    if rank == 0:
        print(f"epoch {epoch}  lambda {step.lambda_:.6f}  validation cost {step.cost:.3f}")
dist.destroy_process_group()
