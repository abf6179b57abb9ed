"""PyTorch without any trainer; and all examples run."""

import re
import runpy
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


# Keras itself, with new versions of numpy
KERAS = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("skorch_net", "val_cost"), ("transformers_trainer", "eval_val_cost"),
        pytest.param("keras_model", "lambda", marks=KERAS), ("sklearn_estimator", "adaptive: test cost"),
    ],
)  # fmt: skip
def test_examples_run(capsys, name, text):
    runpy.run_path(str(EXAMPLES / f"{name}.py"))
    assert text in capsys.readouterr().out


def test_a_plain_loop(capsys):
    runpy.run_path(str(EXAMPLES / "plain_pytorch.py"))
    result = LAMBDA.findall(capsys.readouterr().out)
    assert len(result) == 15
    assert len(set(result)) > 5


COSTS = CostMatrix(fp=1, fn=20)


def made_up():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(600, 4, generator=generator)
    y = (x[:, 0] + x[:, 1] ** 2 + torch.randn(600, generator=generator) > 2.0).float()
    return x[:400], y[:400], x[400:], y[400:]


def trained(loss, adapt):
    """A network after five epochs of a usual loop; ``adapt`` is called with validation logits and labels."""
    x, y, held_out, labels = made_up()
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
    """The same with torch's own loss, its weights taken from the controller."""
    controller = AdaCSLController(COSTS)

    def loss(logits, labels):
        return F.binary_cross_entropy_with_logits(logits, labels, weight=labels + (1 - labels) * controller.weight)

    def adapt(logits, labels):
        if steps:
            controller.step(torch.sigmoid(logits), labels)

    return trained(loss, adapt), [step.lambda_ for step in controller.history]


def test_a_loop_trains_with_the_weights_of_the_controller():
    expected, lambdas = by_hand()
    loss = AdaptiveCrossEntropy(COSTS)
    result = trained(loss, loss.adapt)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
    assert [step.lambda_ for step in loss.controller.history] == pytest.approx(lambdas, rel=1e-4)
    assert float(loss.negative_weight) == pytest.approx(loss.controller.weight)


def test_without_adapting_it_trains_as_plain_weighted_cross_entropy():
    expected, _ = by_hand(steps=False)
    loss = AdaptiveCrossEntropy(COSTS)
    result = trained(loss, lambda logits, labels: None)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
    assert loss.controller.lambda_ == 1.0
    # what is adapted ends elsewhere: an adapt that did nothing would be seen
    assert float((by_hand()[0] - expected).abs().max()) > 0.02
