"""RealMLP: a plain network with the same weights gives the same; members are what they are alone."""

from __future__ import annotations

import io
import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from adacsl.torch.realmlp import RealMLP, check_realmlp_sizes
from adacsl.torch.tabular import stack_members

SHAPES = [{}, {"numeric": [1, 3]}, {"numeric": []}, {"outputs": 4}, {"depth": 1, "frequencies": 5, "embedding": 2}]


@pytest.fixture
def x():
    return torch.randn(17, 5, generator=torch.Generator().manual_seed(0))


def make(members=3, **changes):
    return RealMLP(5, members, **({"width": 16, "seeds": list(range(10, 10 + members))} | changes)).eval()


def varied(net, seeds=(5, 6, 7)):
    """Move all parameters, each member's by its own seed, so that none has the value it starts with."""
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    with torch.no_grad():
        for parameter in net.parameters():
            for own, generator in zip(parameter, generators, strict=True):
                own.add_(0.3 * torch.randn(own.shape, generator=generator))
    return net


def plain_logits(net, member, x):
    """Return the logits of one member, computed number by number with plain torch: the oracle."""
    own = {name: value[member] for name, value in net.named_parameters()}
    columns = [x]
    for place, column in enumerate(net.numeric.tolist()):
        frequency, phase = own["periodic.frequency"][place, 0], own["periodic.phase"][place, 0]
        waves = torch.cos(2 * math.pi * x[:, column : column + 1] * frequency + phase)
        columns.append(waves @ own["periodic.weight"][place])
    hidden = torch.cat(columns, dim=1) * own["scale"]
    for number in range(net.depth):
        hidden = hidden @ own[f"layers.{number}.weight"] / math.sqrt(hidden.shape[1]) + own[f"layers.{number}.bias"]
        slope = own[f"slopes.{number}"]
        hidden = (1 - slope) * hidden + slope * nn.SELU()(hidden)
    return hidden @ own["output.weight"] / math.sqrt(net.width) + own["output.bias"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("training", [False, True])
def test_a_plain_network_gives_the_same(x, shape, training):
    net = varied(make(**shape, dropout=0.0)).train(training)
    logits = net(x)
    assert logits.shape == (17, 3, 1, 4) if "outputs" in shape else (17, 3, 1)
    for member in range(3):
        torch.testing.assert_close(
            logits[:, member].reshape(17, -1), plain_logits(net, member, x), atol=2e-5, rtol=2e-5
        )


@given(st.integers(1, 40), st.integers(1, 6), st.integers(1, 20), st.integers(1, 3))
@settings(max_examples=25, deadline=None)
def test_members_predict_the_same_bits_alone(rows, n_features, width, outputs):
    x = torch.randn(rows, n_features, generator=torch.Generator().manual_seed(rows))
    shape = {"width": width, "outputs": outputs, "numeric": range(n_features // 2)}
    net = varied(RealMLP(n_features, 3, **shape, seeds=[1, 2, 3]).eval())
    for member in range(3):
        alone = varied(RealMLP(n_features, **shape, seeds=[member + 1]).eval(), [member + 5])
        torch.testing.assert_close(net.member(member)(x), alone(x), atol=0, rtol=0)
        torch.testing.assert_close(net(x)[:, member : member + 1], alone(x), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_batch_of_training_has_the_same_bits_alone(shape):
    # batches of a training are filled up to 32 samples
    x = torch.randn(64, 5, generator=torch.Generator().manual_seed(1))

    def pass_of(seeds):
        net = varied(RealMLP(5, len(seeds), width=12, seeds=seeds, **shape).train(), seeds)
        net.noise = net.draw_noise([torch.Generator().manual_seed(seed) for seed in seeds], 1, 64)[:, 0]
        net(x).square().sum().backward()
        return net

    jointly = pass_of([3, 4, 5])
    for member, seed in enumerate([3, 4, 5]):
        alone = pass_of([seed])
        for one, other in zip(jointly.parameters(), alone.parameters(), strict=True):
            assert torch.equal(one.grad[member], other.grad[0])
            assert one.grad[member].abs().sum() > 0


def test_members_do_not_influence_each_other(x):
    net = varied(make()).train()
    net(x)[:, 1].square().sum().backward()
    for parameter in net.parameters():
        assert (parameter.grad[[0, 2]] == 0).all()
        assert parameter.grad[1].abs().sum() > 0


@pytest.mark.parametrize("shape", SHAPES)
def test_members_may_get_rows_of_their_own(x, shape):
    net = varied(make(**shape))
    rows = torch.stack([torch.randperm(17, generator=torch.Generator().manual_seed(i)) for i in range(3)], dim=1)
    expected = torch.stack([net(x)[rows[:, i], i] for i in range(3)], dim=1)
    torch.testing.assert_close(net(x[rows]), expected, atol=1e-5, rtol=1e-5)


def test_the_start_is_in_neural_tangent_parametrisation():
    net = RealMLP(200, width=300, sigma=0.1, seeds=[0])
    assert net.layers[0].weight.std().item() == pytest.approx(1.0, abs=0.01)
    assert net.layers[1].weight.std().item() == pytest.approx(1.0, abs=0.01)
    assert net.periodic.frequency.std().item() == pytest.approx(0.1, abs=0.01)
    assert net.periodic.phase.abs().max().item() <= math.pi
    assert (net.scale == 1).all()
    assert net.rates == {"scale": 6.0}
    x = torch.randn(100, 200, generator=torch.Generator().manual_seed(0))
    assert (net.eval()(x) == 0).all()


def test_dropout_acts_in_training_only(x):
    net = varied(make(dropout=0.5))
    assert torch.equal(net(x), net(x))
    assert not torch.equal(net.train()(x), net(x))


@pytest.mark.parametrize("shape", SHAPES)
def test_members_stacked_again_are_the_same(x, shape):
    net = varied(make(**shape))
    states = [net.member(i).state_dict() for i in (2, 0)]
    own = {name for name, _ in net.named_parameters()}
    states = [{n: v[0] if n in own else v for n, v in state.items()} for state in states]
    again = stack_members(net, states).eval()
    torch.testing.assert_close(again(x), net(x)[:, [2, 0]], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_onnx_gives_the_same(x, shape):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    net, file = varied(make(**shape)), io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own deprecations
        rows = torch.export.Dim("rows", min=2)
        program = torch.onnx.export(net, (x,), dynamo=True, dynamic_shapes=({0: rows},), verbose=False)
    program.save(file)
    session = runtime.InferenceSession(file.getvalue())
    wide = torch.randn(40, 5, generator=torch.Generator().manual_seed(3))
    (got,) = session.run(None, {session.get_inputs()[0].name: wide.numpy()})
    np.testing.assert_allclose(got, net(wide).detach().numpy(), atol=1e-4)


def test_sizes_are_checked_against_the_weights():
    net = make()
    sizes, state = net.sizes(), net.state_dict()
    check_realmlp_sizes(sizes, state, members=3, n_features=5)
    for name in ("width", "depth", "frequencies", "embedding", "n_features", "outputs", "numeric"):
        wrong = sizes | {name: [1] if name == "numeric" else 10**12}
        with pytest.raises(ValueError, match="not those of its weights"):
            check_realmlp_sizes(wrong, state, members=3, n_features=5)
    with pytest.raises(ValueError, match="not those of its weights"):
        check_realmlp_sizes(sizes, state, members=2, n_features=5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"members": 0}, "members must be a whole number of at least 1, got 0"),
        ({"frequencies": 0}, "frequencies must be a whole number of at least 1, got 0"),
        ({"seeds": [1]}, "one per member: 3 members, 1 seeds"),
        ({"numeric": [5]}, "numeric must name columns 0 to 4"),
        ({"sigma": 0.0}, "sigma must be a number above 0"),
        ({"dropout": 1.0}, "dropout must be"),
    ],
)
def test_wrong_settings_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        make(**changes)
