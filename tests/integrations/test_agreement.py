"""The same tests of all integrations: equal scores give equal lambdas, and adaptation lowers the cost."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from adacsl import AdaCSLController, CostMatrix
from adacsl.adaptive import UniformBins

HERE = Path(__file__).parent
EPOCHS, N, COSTS = 4, 103, CostMatrix(fp=1, fn=20)


def load(name):
    spec = importlib.util.spec_from_file_location(f"integrations_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


adapters = load("adapters")
boosters = ("xgboost", "lightgbm", "catboost")
missing = [name for name in boosters if importlib.util.find_spec(name) is None]
BOOSTING = () if missing else load("boosting_adapters").ADAPTERS
ALL = (*adapters.ADAPTERS, *BOOSTING)


def controller():
    return AdaCSLController(CostMatrix(fp=1, fn=5), partition=UniformBins(3))


@pytest.fixture(scope="module")
def frozen():
    """Scores of the validation samples in each epoch, drifting; those of positives are higher."""
    rng = np.random.default_rng(0)
    labels = (rng.random(N) < 0.3).astype(int)
    logits = [rng.normal(1.5 * labels - 0.7 + 0.4 * epoch, 1.0).astype(np.float32) for epoch in range(EPOCHS)]
    return [1 / (1 + np.exp(-z.astype(np.float64))) for z in logits], labels


@pytest.fixture(scope="module")
def expected(frozen):
    """The controller alone."""
    alone = controller()
    for scores in frozen[0]:
        alone.step(scores, frozen[1])
    result = [step.lambda_ for step in alone.history]
    assert len(set(result)) == EPOCHS
    return result


@pytest.mark.parametrize("adapter", ALL, ids=lambda adapter: adapter.name)
def test_every_integration_reports_the_lambdas_of_the_controller(adapter, frozen, expected):
    assert adapter.run(*frozen, controller()) == pytest.approx(expected, rel=1e-6)
    # within their bounds at extreme costs
    alone, adapted = (AdaCSLController(CostMatrix(fp=1e12, fn=1e-5)) for _ in range(2))
    for scores in frozen[0]:
        alone.step(scores, frozen[1])
    result = adapter.run(*frozen, adapted)
    assert result == pytest.approx([step.lambda_ for step in alone.history], rel=1e-4)
    assert 1e-3 <= min(result) <= max(result) <= 1e3


@pytest.mark.parametrize(
    "adapter",
    [adapters.Keras, pytest.param(adapters.KerasJax, marks=pytest.mark.weekly)],
    ids=lambda adapter: adapter.name,
)
def test_keras_reports_the_lambdas_of_the_controller_and_costs_less_than_its_default(adapter, frozen, expected):
    if importlib.util.find_spec(adapter.backend) is None:
        pytest.skip(f"{adapter.backend} is not installed")
    answers = adapter.answers(*frozen, COSTS)
    assert answers["backend"] == adapter.backend
    assert answers["lambdas"] == pytest.approx(expected, rel=1e-6)
    plain, adapted = answers["toy"]
    assert adapted < plain


@pytest.mark.parametrize("adapter", ALL, ids=lambda adapter: adapter.name)
def test_every_integration_costs_less_than_its_unweighted_default(adapter):
    plain, adapted = adapter.toy(COSTS)
    assert adapted < plain


def test_the_boosters_are_among_the_integrations():
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    assert {adapter.name for adapter in BOOSTING} == set(boosters)
