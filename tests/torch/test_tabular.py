from __future__ import annotations

import io
import warnings

import numpy as np
import pytest
import torch

from adacsl.torch.tabular import TableNet

SHAPES = [{}, {"heads": 3}, {"bins": 8}, {"heads": 2, "numeric": [1, 3], "bins": 4}, {"depth": 1}]
SHAPES += [{"outputs": 4}, {"heads": 3, "outputs": 4}]


@pytest.fixture
def x():
    return torch.randn(17, 5, generator=torch.Generator().manual_seed(0))


def make(members=3, **settings):
    return TableNet(5, members, width=16, seeds=list(range(10, 10 + members)), **settings).eval()


@pytest.mark.parametrize("settings", SHAPES)
def test_a_member_starts_the_same_alone_and_in_company(x, settings):
    together = make(**settings)(x)
    alone = torch.cat([TableNet(5, width=16, seeds=[10 + i], **settings).eval()(x) for i in range(3)], dim=1)
    outputs = (settings["outputs"],) if "outputs" in settings else ()
    assert together.shape == (17, 3, settings.get("heads", 1), *outputs)
    torch.testing.assert_close(together, alone, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("settings", SHAPES)
def test_member_extracts_a_net_of_its_own(x, settings):
    net = make(**settings)
    for i in range(3):
        torch.testing.assert_close(net.member(i)(x), net(x)[:, i : i + 1], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("settings", SHAPES)
def test_members_do_not_influence_each_other(x, settings):
    net = make(**settings).train()
    net(x)[:, 1].square().sum().backward()
    for parameter in net.parameters():
        assert parameter.shape[0] == 3
        assert (parameter.grad[[0, 2]] == 0).all()
    assert all(p.grad[1].abs().sum() > 0 for p in net.parameters())


def test_training_together_equals_training_alone(x):
    y = (x[:, 0] > 0).float()[:, None, None]

    def train(net):
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        for _ in range(20):
            optimizer.zero_grad()
            losses = torch.nn.functional.binary_cross_entropy_with_logits(
                net(x), y.expand(-1, net.members, 2), reduction="none"
            )
            losses.mean(dim=(0, 2)).sum().backward()
            optimizer.step()
        return net(x)

    together = train(make(heads=2))
    for i in range(3):
        torch.testing.assert_close(train(make(heads=2).member(i)), together[:, i : i + 1], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("settings", SHAPES)
def test_members_may_get_rows_of_their_own(x, settings):
    net = make(**settings)
    rows = torch.stack([torch.randperm(17, generator=torch.Generator().manual_seed(i)) for i in range(3)], dim=1)
    expected = torch.stack([net(x)[rows[:, i], i] for i in range(3)], dim=1)
    torch.testing.assert_close(net(x[rows]), expected, atol=1e-6, rtol=1e-6)


def test_heads_of_one_member_differ(x):
    z = make(members=1, heads=4)(x)[:, 0]
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


def test_dropout_acts_in_training_only(x):
    net = make(dropout=0.5)
    assert torch.equal(net(x), net(x))
    assert not torch.equal(net.train()(x), net(x))


def ones_dropped(share, noise=None, rows=1001, width=999):
    """Return hidden units that are all one, after dropout."""
    net = TableNet(1, width=width, depth=1, dropout=share, seeds=[0])
    with torch.no_grad():
        net.layers[0].weight.zero_()
        net.layers[0].bias.fill_(1.0)
    net.noise = noise
    return inputs_of(net.output, net, torch.zeros(rows, 1))


@pytest.mark.parametrize("own", [False, True])
def test_dropout_zeroes_its_share_and_keeps_the_mean(own):
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

    together = logits([3, 4, 5])
    for i, seed in enumerate([3, 4, 5]):
        torch.testing.assert_close(logits([seed]), together[:, i : i + 1], atol=1e-6, rtol=1e-6)
    assert torch.equal(together, logits([3, 4, 5]))  # the global generator has gone on
    assert TableNet(5, dropout=0.0, seeds=[0]).draw_noise([torch.Generator()], 1, 17) is None


def test_state_dict_holds_plain_tensors_and_loads_strictly(x):
    net, other = make(heads=2), TableNet(5, 3, heads=2, width=16, seeds=[7, 8, 9]).eval()
    state = net.state_dict()
    assert all(type(value) is torch.Tensor for value in state.values())
    other.load_state_dict(state)
    assert torch.equal(net(x), other(x))


def test_same_seeds_ignore_the_global_generator(x):
    torch.manual_seed(1)
    first = make()(x)
    torch.manual_seed(2)
    assert torch.equal(first, make()(x))


@pytest.mark.parametrize("settings", SHAPES)
def test_autocast_to_bfloat16_stays_close(x, settings):
    net = make(**settings)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = net(x)
    torch.testing.assert_close(half.float(), net(x), atol=0.05, rtol=0.05)


@pytest.mark.parametrize("heads", [1, 3])
def test_torch_export_knows_every_operation(x, heads):
    program = torch.export.export(make(heads=heads), (x,), dynamic_shapes=({0: torch.export.Dim("rows", min=2)},))
    wide = torch.randn(40, 5, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(program.module()(wide), make(heads=heads)(wide), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("heads", [1, 3])
def test_compiled_net_gives_the_same(x, heads):
    # aot_eager traces forward and backward without needing a C++ compiler
    net = make(heads=heads)
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), net(x), atol=1e-6, rtol=1e-6)
    compiled.train()
    compiled(x).sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    torch.compiler.reset()


@pytest.mark.parametrize("heads", [1, 3])
def test_onnx_gives_the_same(x, heads):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    net, file = make(heads=heads), io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own deprecations
        rows = torch.export.Dim("rows", min=2)
        program = torch.onnx.export(net, (x,), dynamo=True, dynamic_shapes=({0: rows},), verbose=False)
    program.save(file)
    session = runtime.InferenceSession(file.getvalue())
    wide = torch.randn(40, 5, generator=torch.Generator().manual_seed(3))
    (got,) = session.run(None, {session.get_inputs()[0].name: wide.numpy()})
    np.testing.assert_allclose(got, net(wide).detach().numpy(), atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"members": 0}, "members must be a whole number of at least 1, got 0"),
        ({"width": 1.5}, "width must be a whole number of at least 1, got 1.5"),
        ({"members": 2, "seeds": [1]}, "one per member: 2 members, 1 seeds"),
        ({"numeric": [5]}, "numeric must name columns 0 to 4"),
        ({"bins": -1}, "bins must be"),
        ({"dropout": 1.0}, "dropout must be"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        TableNet(5, **settings)
