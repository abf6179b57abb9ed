"""CostMetric in two processes: what each computes, as JSON; started by tests/integrations/test_torchmetrics.py."""

import json
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def main(rank, world, file, folder):
    from adacsl import CostMatrix
    from adacsl.integrations.torchmetrics import CostMetric

    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=world)
    three = CostMatrix.from_array([[0, 9, 2], [1, 0, 1], [3, 9, 0]], rows="predicted")
    two = [CostMatrix(fp=1, fn=8), CostMatrix(fp=3, fn=1)]
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(400, 3, generator=generator)
    labels = (logits + torch.randn(400, 3, generator=generator)).argmax(1)
    several = (logits[:, :2] + torch.randn(400, 2, generator=generator) > 0.5).float()
    cases = {
        "two": (CostMetric(two[0]), logits[:, 0], (labels == 1).long()),
        "folded": (CostMetric(two[0], kept=150), logits[:, 0], (labels == 1).long()),
        "three": (CostMetric(three), logits, labels),
        "labels": (CostMetric(two), logits[:, :2], several),
        "one is empty": (CostMetric(two), logits[:, :2], several),
    }
    result = {}
    for name, (metric, z, y) in cases.items():
        # shares of different sizes: of "folded" only the first process has more than it holds
        cut = 400 if name == "one is empty" else 300
        rows = torch.arange(cut) if rank == 0 else torch.arange(cut, 400)
        for part in (rows if world == 2 else torch.arange(400)).split(50):
            if len(part):
                metric.update(z[part], y[part])
        result[name] = {key: float(value) for key, value in metric.compute().items()}
    (folder / f"{rank}.json").write_text(json.dumps(result))
    dist.destroy_process_group()


if __name__ == "__main__":
    from pathlib import Path

    folder = Path(sys.argv[1])
    for world in (1, 2):
        part = folder / str(world)
        part.mkdir()
        mp.spawn(main, args=(world, part / "meeting", part), nprocs=world)
