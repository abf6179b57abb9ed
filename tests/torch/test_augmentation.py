"""Augmentation: every view is a flip, shift or turn of its image, alike under a seed, absent in evaluation."""

import pytest
import torch
from torch.nn import functional as F

from adacsl.torch.augmentation import Augment

SIDE = 16
OFF = {"flip": False, "shift": 0.0}


def images(n=64, channels=3, dtype=torch.uint8, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (n, channels, SIDE, SIDE), generator=generator).to(dtype)


def flips(image):
    return [image, image.flip(-1), image.flip(-2), image.flip((-1, -2))]


def which(view, candidates):
    return next((i for i, candidate in enumerate(candidates) if torch.equal(view, candidate)), None)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float16])
@pytest.mark.parametrize("channels", [1, 3])
def test_shape_dtype_and_layout(dtype, channels):
    batch = images(5, channels, dtype)
    for settings in ({}, {"rotate": True}, {"brightness": 0.1, "contrast": 0.1}):
        view = Augment(**settings)(batch)
        assert view.shape == batch.shape
        assert view.dtype == dtype
        assert view.is_contiguous(memory_format=torch.channels_last)


def test_input_layout_does_not_matter():
    batch = images()
    torch.manual_seed(1)
    plain = Augment()(batch)
    torch.manual_seed(1)
    last = Augment()(batch.contiguous(memory_format=torch.channels_last))
    assert torch.equal(plain, last)
    assert last.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("flip", "allowed"), [(True, {0, 1, 2, 3}), ("horizontal", {0, 1}), ("vertical", {0, 2}), (False, {0})]
)
def test_flips(flip, allowed):
    torch.manual_seed(0)
    batch = images(400)
    view = Augment(flip, shift=0.0)(batch)
    kinds = [which(v, flips(x)) for v, x in zip(view, batch, strict=True)]
    counts = torch.bincount(torch.tensor(kinds), minlength=4)
    share = 1.0 / len(allowed)
    for kind in range(4):
        expected = 400 * share if kind in allowed else 0
        assert abs(int(counts[kind]) - expected) <= 5 * (400 * share * (1 - share)) ** 0.5 + 1e-9


def test_shifts_are_crops_of_the_mirrored_image():
    torch.manual_seed(0)
    batch, reach = images(300), 2
    view = Augment(False, shift=reach / SIDE)(batch)
    padded = F.pad(batch.float(), (reach,) * 4, mode="reflect").to(torch.uint8)
    seen = set()
    for v, big in zip(view, padded, strict=True):
        crops = [
            big[:, top : top + SIDE, left : left + SIDE]
            for top in range(2 * reach + 1)
            for left in range(2 * reach + 1)
        ]
        kind = which(v, crops)
        assert kind is not None
        seen.add(kind)
    assert len(seen) == (2 * reach + 1) ** 2


def test_quarter_turns():
    torch.manual_seed(0)
    batch = images(400)
    view = Augment(**OFF, rotate=True)(batch)
    kinds = [which(v, [torch.rot90(x, k, (-2, -1)) for k in range(4)]) for v, x in zip(view, batch, strict=True)]
    assert min(torch.bincount(torch.tensor(kinds), minlength=4)) > 60


def test_turns_and_flips_reach_all_eight_symmetries():
    torch.manual_seed(0)
    batch = images(200)
    view = Augment(shift=0.0, rotate=True)(batch)
    eight = [
        lambda x, k=k, f=f: torch.rot90(f(x), k, (-2, -1))
        for k in range(4)
        for f in (lambda x: x, lambda x: x.flip(-1))
    ]
    kinds = {which(v, [s(x) for s in eight]) for v, x in zip(view, batch, strict=True)}
    assert kinds == set(range(8))


def test_light_moves_pixels_within_bounds():
    torch.manual_seed(0)
    batch = torch.full((64, 3, SIDE, SIDE), 128, dtype=torch.uint8)
    view = Augment(**OFF, brightness=0.1)(batch).float()
    assert (view - 128).abs().max() <= 0.1 * 255 + 1
    assert view.mean(dim=(1, 2, 3)).std() > 5
    batch = images()
    view = Augment(**OFF, contrast=0.5)(batch).float()
    ratio = view.std(dim=(1, 2, 3)) / batch.float().std(dim=(1, 2, 3))
    assert 0.45 < ratio.min() < 0.7
    assert ratio.max() > 1.1


def test_light_on_floats_is_not_clipped():
    torch.manual_seed(0)
    batch = torch.ones(64, 3, SIDE, SIDE)
    assert Augment(**OFF, brightness=0.5)(batch).max() > 1.1


def test_same_seed_same_views():
    batch, settings = images(), {"rotate": True, "brightness": 0.1}
    torch.manual_seed(3)
    first = Augment(**settings)(batch)
    torch.manual_seed(3)
    assert torch.equal(first, Augment(**settings)(batch))
    own = [Augment(**settings, generator=torch.Generator().manual_seed(7))(batch) for _ in range(2)]
    assert torch.equal(*own)
    assert not torch.equal(own[0], first)


def test_own_generator_leaves_the_global_one_alone():
    state = torch.random.get_rng_state()
    Augment(generator=torch.Generator())(images())
    assert torch.equal(state, torch.random.get_rng_state())


def test_evaluation_is_identity_and_draws_nothing():
    batch = images()
    state = torch.random.get_rng_state()
    assert Augment().eval()(batch) is batch
    assert torch.equal(state, torch.random.get_rng_state())


def test_nothing_switched_on_is_identity():
    batch = images()
    assert Augment(**OFF)(batch) is batch


def test_oblong_and_tiny_images():
    oblong = torch.arange(2 * 6 * 4).view(2, 1, 6, 4)
    view = Augment(shift=0.0)(oblong)
    assert all(which(v, flips(x)) is not None for v, x in zip(view, oblong, strict=True))
    with pytest.raises(ValueError, match="square images, got 6 x 4"):
        Augment(rotate=True)(oblong)
    one = torch.ones(3, 1, 1, 1)
    assert torch.equal(Augment(shift=0.9, rotate=True)(one), one)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"flip": "sideways"}, "flip must be"),
        ({"shift": 1.5}, "shift must be a share"),
        ({"brightness": -0.1}, "brightness must be a share"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        Augment(**settings)


def test_bad_shape():
    with pytest.raises(ValueError, match=r"\(B, C, H, W\)"):
        Augment()(torch.zeros(3, 8, 8))
