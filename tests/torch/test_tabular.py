"""Networks of tables, TableNet and RealMLP: many members in one, each as it is separately; exported and compiled."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from adacsl.torch.realmlp import RealMLP, check_realmlp_sizes
from adacsl.torch.tabular import TableNet, stack_members

TABLE_SHAPES = [{}, {"heads": 3}, {"bins": 8}, {"heads": 2, "numeric": [1, 3], "bins": 4}, {"depth": 1}]
TABLE_SHAPES += [{"outputs": 4}, {"heads": 3, "outputs": 4}]
REALMLP_SHAPES = [{}, {"numeric": [1, 3]}, {"numeric": []}, {"outputs": 4}]
REALMLP_SHAPES += [{"depth": 1, "frequencies": 5, "embedding": 2}]
SHAPES = [(TableNet, shape) for shape in TABLE_SHAPES] + [(RealMLP, shape) for shape in REALMLP_SHAPES]
BOTH = pytest.mark.parametrize("kind", [TableNet, RealMLP])
EACH_SHAPE = pytest.mark.parametrize(("kind", "shape"), SHAPES)
OF_REALMLP = pytest.mark.parametrize("shape", REALMLP_SHAPES)


@pytest.fixture
def x():
    return torch.randn(17, 5, generator=torch.Generator().manual_seed(0))


def varied(net, seeds):
    """Move all parameters, each member's by its own seed, so that none has the value it starts with."""
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    with torch.no_grad():
        for parameter in net.parameters():
            for own, generator in zip(parameter, generators, strict=True):
                own.add_(0.3 * torch.randn(own.shape, generator=generator))
    return net


def make(kind=TableNet, seeds=(10, 11, 12), **changes):
    net = kind(5, len(seeds), **({"width": 16, "seeds": list(seeds)} | changes)).eval()
    return varied(net, seeds) if kind is RealMLP else net  # its output starts at 0


@EACH_SHAPE
def test_a_member_is_the_same_separately_and_extracted(x, kind, shape):
    net = make(kind, **shape)
    jointly = net(x)
    heads, outputs = shape.get("heads", 1), (shape["outputs"],) if "outputs" in shape else ()
    assert jointly.shape == (17, 3, heads, *outputs)
    for i in range(3):
        alone = make(kind, seeds=[10 + i], **shape)
        torch.testing.assert_close(jointly[:, i : i + 1], alone(x), atol=1e-6, rtol=1e-6)
        torch.testing.assert_close(net.member(i)(x), alone(x), atol=1e-6, rtol=1e-6)


@EACH_SHAPE
def test_members_do_not_influence_each_other(x, kind, shape):
    net = make(kind, **shape).train()
    net(x)[:, 1].square().sum().backward()
    for parameter in net.parameters():
        assert parameter.shape[0] == 3
        assert (parameter.grad[[0, 2]] == 0).all()
        assert parameter.grad[1].abs().sum() > 0


@EACH_SHAPE
def test_members_may_get_samples_of_their_own(x, kind, shape):
    net = make(kind, **shape)
    rows = torch.stack([torch.randperm(17, generator=torch.Generator().manual_seed(i)) for i in range(3)], dim=1)
    expected = torch.stack([net(x)[rows[:, i], i] for i in range(3)], dim=1)
    torch.testing.assert_close(net(x[rows]), expected, atol=1e-5, rtol=1e-5)


@EACH_SHAPE
def test_members_stacked_again_are_the_same(x, kind, shape):
    net = make(kind, **shape)
    own = {name for name, _ in net.named_parameters()}
    states = [net.member(i).state_dict() for i in (2, 0)]
    states = [{n: v[0] if n in own else v for n, v in state.items()} for state in states]
    again = stack_members(net, states).eval()
    torch.testing.assert_close(again(x), net(x)[:, [2, 0]], atol=1e-6, rtol=1e-6)


@EACH_SHAPE
def test_autocast_to_bfloat16_stays_close(x, kind, shape):
    net = make(kind, **shape).requires_grad_(requires_grad=False)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = net(x)
    atol = 0.05 * max(float(net(x).abs().max()), 1.0)
    torch.testing.assert_close(half.float(), net(x), atol=atol, rtol=0.05)


@BOTH
def test_dropout_acts_in_training_only(x, kind):
    net = make(kind, dropout=0.5)
    assert torch.equal(net(x), net(x))
    assert not torch.equal(net.train()(x), net(x))


@BOTH
def test_same_seeds_ignore_the_global_generator(x, kind):
    torch.manual_seed(1)
    first = make(kind)(x)
    torch.manual_seed(2)
    assert torch.equal(first, make(kind)(x))


@BOTH
def test_state_dict_holds_plain_tensors_and_loads_strictly(x, kind):
    net, other = make(kind), make(kind, seeds=[7, 8, 9])
    state = net.state_dict()
    assert all(type(value) is torch.Tensor for value in state.values())
    other.load_state_dict(state)
    assert torch.equal(net(x), other(x))


@pytest.mark.parametrize(("kind", "shape"), [(TableNet, {"heads": 3}), (TableNet, {"bins": 4, "numeric": [1]}),
                                             (RealMLP, {"numeric": []}), (RealMLP, {"outputs": 4})])  # fmt: skip
def test_torch_export_knows_every_operation(x, kind, shape):
    """With ONNX in tests/neural/test_tabular.py."""
    net = make(kind, **shape)
    program = torch.export.export(net, (x,), dynamic_shapes=({0: torch.export.Dim("rows", min=2)},))
    wide = torch.randn(40, 5, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(program.module()(wide), net(wide), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("heads", [1, 3])
def test_a_compiled_net_gives_the_same(x, heads):
    # aot_eager traces forward and backward without needing a C++ compiler
    net = make(heads=heads)
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), net(x), atol=1e-6, rtol=1e-6)
    compiled.train()
    compiled(x).sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    torch.compiler.reset()


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (TableNet, {"members": 0, "seeds": None}, "members must be a whole number of at least 1, got 0"),
        (TableNet, {"width": 1.5}, "width must be a whole number of at least 1, got 1.5"),
        (TableNet, {"bins": -1}, "bins must be"),
        (RealMLP, {"members": 0, "seeds": None}, "members must be a whole number of at least 1, got 0"),
        (RealMLP, {"frequencies": 0}, "frequencies must be a whole number of at least 1, got 0"),
        (RealMLP, {"sigma": 0.0}, "sigma must be a number above 0"),
        *((kind, {"members": 2}, "one per member: 2 members, 1 seeds") for kind in (TableNet, RealMLP)),
        *((kind, {"numeric": [5]}, "numeric must name columns 0 to 4") for kind in (TableNet, RealMLP)),
        *((kind, {"dropout": 1.0}, "dropout must be") for kind in (TableNet, RealMLP)),
    ],
)
def test_wrong_settings(kind, changes, message):
    with pytest.raises(ValueError, match=message):
        kind(5, **({"seeds": [1]} | changes))


# TableNet


def test_training_jointly_equals_training_separately(x):
    y = (x[:, 0] > 0).float()[:, None, None]

    def train(net):
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        for _ in range(20):
            optimizer.zero_grad()
            losses = nn.functional.binary_cross_entropy_with_logits(
                net(x), y.expand(-1, net.members, 2), reduction="none"
            )
            losses.mean(dim=(0, 2)).sum().backward()
            optimizer.step()
        return net(x)

    jointly = train(make(heads=2))
    for i in range(3):
        torch.testing.assert_close(train(make(heads=2).member(i)), jointly[:, i : i + 1], atol=1e-5, rtol=1e-5)


def test_heads_of_one_member_differ(x):
    z = make(seeds=[10], heads=4)(x)[:, 0]
    assert (z.std(dim=1) > 0).all()


def inputs_of(part, net, x):
    """Return what one part of a net is given."""
    seen = []
    handle = part.register_forward_pre_hook(lambda _, given: seen.append(given[0].detach()))
    net(x)
    handle.remove()
    return seen[0]


def test_ramps_bend_numbers_only():
    net = TableNet(2, numeric=[1], bins=4, seeds=[0])
    (spread,) = inputs_of(net.layers[0], net, torch.tensor([[0.5, -9.0], [0.5, 0.0], [0.5, 9.0]]))
    assert spread[:, :2].tolist() == [[0.5, -9.0], [0.5, 0.0], [0.5, 9.0]]
    assert spread[:, 2:].tolist() == [[0.0] * 4, [1.0, 1.0, 0.0, 0.0], [1.0] * 4]


def ones_dropped(share, noise=None, rows=1001, width=999):
    """Return hidden units that are all one, after dropout."""
    net = TableNet(1, width=width, depth=1, dropout=share, seeds=[0])
    with torch.no_grad():
        net.layers[0].weight.zero_()
        net.layers[0].bias.fill_(1.0)
    net.noise = noise
    return inputs_of(net.output, net, torch.zeros(rows, 1))


@pytest.mark.parametrize("own", [False, True])
def test_dropout_zeroes_its_share_and_preserves_the_mean(own):
    torch.manual_seed(0)
    like = TableNet(1, width=999, depth=1, dropout=0.25, seeds=[0])
    noise = like.draw_noise([torch.Generator().manual_seed(0)], 1, 1001)[:, 0] if own else None
    out = ones_dropped(0.25, noise)
    assert abs((out == 0).float().mean().item() - 0.25) < 0.003
    assert abs(out.mean().item() - 1) < 0.003


def test_dropout_follows_the_global_seed():
    draws = [ones_dropped(0.5, rows=20, width=10) for _ in range(2) if torch.manual_seed(0)]
    assert torch.equal(*draws)
    assert not torch.equal(draws[0], ones_dropped(0.5, rows=20, width=10))


def test_noise_is_the_members_own(x):
    def logits(seeds, rows=17):
        net = TableNet(5, len(seeds), width=16, dropout=0.5, seeds=seeds)
        net.noise = net.draw_noise([torch.Generator().manual_seed(seed) for seed in seeds], 2, rows)[:, 1]
        return net(x)

    jointly = logits([3, 4, 5])
    for i, seed in enumerate([3, 4, 5]):
        torch.testing.assert_close(logits([seed]), jointly[:, i : i + 1], atol=1e-6, rtol=1e-6)
    assert torch.equal(jointly, logits([3, 4, 5]))  # the global generator has moved
    assert TableNet(5, dropout=0.0, seeds=[0]).draw_noise([torch.Generator()], 1, 17) is None


# RealMLP


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


@OF_REALMLP
def test_a_plain_network_gives_the_same_as_realmlp(x, shape):
    net = make(RealMLP, **shape, dropout=0.0)
    for training in (False, True):
        logits = net.train(training)(x)
        for member in range(3):
            expected = plain_logits(net, member, x)
            torch.testing.assert_close(logits[:, member].reshape(17, -1), expected, atol=2e-5, rtol=2e-5)


@given(st.integers(1, 40), st.integers(1, 6), st.integers(1, 20), st.integers(1, 3))
@settings(max_examples=15, deadline=None)
def test_members_of_realmlp_predict_the_same_bits_separately(rows, n_features, width, outputs):
    x = torch.randn(rows, n_features, generator=torch.Generator().manual_seed(rows))
    shape = {"width": width, "outputs": outputs, "numeric": range(n_features // 2)}
    net = varied(RealMLP(n_features, 3, **shape, seeds=[1, 2, 3]).eval(), [5, 6, 7])
    for member in range(3):
        alone = varied(RealMLP(n_features, **shape, seeds=[member + 1]).eval(), [member + 5])
        torch.testing.assert_close(net.member(member)(x), alone(x), atol=0, rtol=0)
        torch.testing.assert_close(net(x)[:, member : member + 1], alone(x), atol=1e-6, rtol=1e-6)


@OF_REALMLP
def test_a_training_batch_of_realmlp_has_the_same_bits_separately(shape):
    # batches of a training are filled up to 32 samples
    x = torch.randn(64, 5, generator=torch.Generator().manual_seed(1))

    def pass_of(seeds):
        net = make(RealMLP, seeds=seeds, **shape).train()
        net.noise = net.draw_noise([torch.Generator().manual_seed(seed) for seed in seeds], 1, 64)[:, 0]
        net(x).square().sum().backward()
        return net

    jointly = pass_of([3, 4, 5])
    for member, seed in enumerate([3, 4, 5]):
        for one, other in zip(jointly.parameters(), pass_of([seed]).parameters(), strict=True):
            assert torch.equal(one.grad[member], other.grad[0])


def test_realmlp_starts_in_neural_tangent_parametrisation():
    net = RealMLP(200, width=300, sigma=0.1, seeds=[0])
    assert net.layers[0].weight.std().item() == pytest.approx(1.0, abs=0.01)
    assert net.layers[1].weight.std().item() == pytest.approx(1.0, abs=0.01)
    assert net.periodic.frequency.std().item() == pytest.approx(0.1, abs=0.01)
    assert net.periodic.phase.abs().max().item() <= math.pi
    assert (net.scale == 1).all()
    assert net.rates == {"scale": 6.0}
    x = torch.randn(100, 200, generator=torch.Generator().manual_seed(0))
    assert (net.eval()(x) == 0).all()


def test_sizes_of_realmlp_are_checked_against_the_weights():
    net = make(RealMLP)
    sizes, state = net.sizes(), net.state_dict()
    check_realmlp_sizes(sizes, state, members=3, n_features=5)
    names = ("width", "depth", "frequencies", "embedding", "n_features", "outputs", "numeric")
    wrong = [(sizes | {name: [1] if name == "numeric" else 10**12}, 3) for name in names]
    for given_sizes, members in (*wrong, (sizes, 2)):
        with pytest.raises(ValueError, match="not those of its weights"):
            check_realmlp_sizes(given_sizes, state, members=members, n_features=5)
