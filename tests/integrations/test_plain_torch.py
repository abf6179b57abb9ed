"""PyTorch without any trainer: the examples run, and processes started by torchrun agree."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from adacsl import AdaCSLController, CostMatrix
from adacsl.torch import AdaptiveCrossEntropy

EXAMPLES = Path(__file__).parents[2] / "examples"
LAMBDA = re.compile(r"lambda (\d+\.\d+)")


def code_lines(path):
    text = re.sub(r'^""".*?"""\n', "", path.read_text(), count=1, flags=re.DOTALL)
    return [line for line in text.splitlines() if line.strip() and not line.startswith(("import ", "from ", "#"))]


@pytest.mark.parametrize(
    "name", ["plain_pytorch", "torchrun", "skorch_net", "transformers_trainer", "keras_model", "sklearn_estimator"]
)
def test_examples_are_short(name):
    assert len(code_lines(EXAMPLES / f"{name}.py")) <= 25


def test_a_plain_loop(capsys):
    runpy.run_path(str(EXAMPLES / "plain_pytorch.py"))
    result = LAMBDA.findall(capsys.readouterr().out)
    assert len(result) == 15
    assert len(set(result)) > 5


COSTS = CostMatrix(fp=1, fn=20)


def made_rows():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(600, 4, generator=generator)
    y = (x[:, 0] + x[:, 1] ** 2 + torch.randn(600, generator=generator) > 2.0).float()
    return x[:400], y[:400], x[400:], y[400:]


def trained(loss, adapt):
    """A net after five epochs of a loop as anybody writes it; ``adapt`` is called with validation logits and labels."""
    x, y, held_out, labels = made_rows()
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    for _ in range(5):
        for rows in torch.arange(400).split(50):
            optimizer.zero_grad()
            loss(net(x[rows])[:, 0], y[rows]).backward()
            optimizer.step()
        with torch.no_grad():
            adapt(net(held_out)[:, 0], labels)
    return net.weight.detach().clone()


def by_hand(*, steps=True):
    """The same with torch's own loss, its weights taken from the core's controller."""
    controller = AdaCSLController(COSTS)

    def loss(logits, labels):
        return F.binary_cross_entropy_with_logits(logits, labels, weight=labels + (1 - labels) * controller.weight)

    def adapt(logits, labels):
        if steps:
            controller.step(torch.sigmoid(logits), labels)

    return trained(loss, adapt), [step.lambda_ for step in controller.history]


def test_a_loop_trains_as_the_core_steers():
    expected, lambdas = by_hand()
    loss = AdaptiveCrossEntropy(COSTS)
    result = trained(loss, loss.adapt)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
    assert [step.lambda_ for step in loss.controller.history] == pytest.approx(lambdas, rel=1e-4)
    assert float(loss.negative_weight) == pytest.approx(loss.controller.weight)


def test_without_adapting_it_trains_as_plain_weighted_cross_entropy_and_otherwise_than_with_it():
    expected, _ = by_hand(steps=False)
    loss = AdaptiveCrossEntropy(COSTS)
    result = trained(loss, lambda logits, labels: None)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
    assert loss.controller.lambda_ == 1.0
    # what is adapted ends elsewhere: an adapt that did nothing would be seen
    assert float((by_hand()[0] - expected).abs().max()) > 0.02


@pytest.mark.slow
def test_two_processes_have_the_lambda_of_one(capsys, monkeypatch, tmp_path):
    for name, value in {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "localhost", "MASTER_PORT": 0}.items():
        monkeypatch.setenv(name, str(value))
    runpy.run_path(str(EXAMPLES / "torchrun.py"))
    one = [float(value) for value in LAMBDA.findall(capsys.readouterr().out)]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name)
    done = subprocess.run(
        [*command, str(EXAMPLES / "torchrun.py")], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    two = [float(value) for value in LAMBDA.findall(done.stdout)]
    assert len(one) == len(set(one)) == 6
    # gradients are summed in another order; the measured scores are the same to a few digits of float32
    assert two == pytest.approx(one, rel=1e-4)
