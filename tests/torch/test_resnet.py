"""The image network: torchvision's keys, local weights read safely, and normalisation."""

import json
import os
import struct
import sys
import types
from pathlib import Path

import pytest
import torch
from torch import nn

from adacsl.torch.resnet import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    Normalise,
    ResNet,
    WeightsError,
    load_backbone,
    named_network,
    normalise,
    resnet18,
)

torch.set_num_threads(1)


def weight_file():
    folder = Path(os.environ.get("ADACSL_DATA") or Path(__file__).parents[2].parent / "shared" / "data")
    path = folder / "resnet18_imagenet_fp16.safetensors"
    if not path.is_file():
        pytest.skip("the pretrained weights are not here: name their folder in ADACSL_DATA")
    return path


def write_safetensors(path, tensors):
    names = {torch.float16: "F16", torch.float32: "F32", torch.int64: "I64"}
    header, body = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in tensors.items():
        data = tensor.contiguous().numpy().tobytes()
        header[name] = {
            "dtype": names[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [len(body), len(body) + len(data)],
        }
        body += data
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    return path


class Tiny(nn.Module):
    def __init__(self, outputs=1):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.bn = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, outputs)


# the network


def test_keys_and_shapes_are_torchvisions():
    state = resnet18(1000).state_dict()
    assert len(state) == 122
    assert sum(p.numel() for p in resnet18(1000).parameters()) == 11_689_512
    known = {
        "conv1.weight": (64, 3, 7, 7),
        "bn1.running_var": (64,),
        "bn1.num_batches_tracked": (),
        "layer1.0.conv1.weight": (64, 64, 3, 3),
        "layer2.0.downsample.0.weight": (128, 64, 1, 1),
        "layer2.0.downsample.1.bias": (128,),
        "layer4.1.bn2.weight": (512,),
        "fc.weight": (1000, 512),
        "fc.bias": (1000,),
    }
    assert {name: tuple(state[name].shape) for name in known} == known
    assert not [k for k in state if k.startswith("layer1") and "downsample" in k]


def test_resnet34_has_torchvisions_size():
    assert sum(p.numel() for p in ResNet((3, 4, 6, 3), 1000).parameters()) == 21_797_672


@pytest.mark.parametrize("side", [32, 50, 64])
def test_forward_and_backward(side):
    net = resnet18(2).to(memory_format=torch.channels_last)
    x = torch.rand(2, 3, side, side).contiguous(memory_format=torch.channels_last)
    out = net(x)
    assert out.shape == (2, 2)
    out.sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    assert net.features(x).shape == (2, 512)


def test_layout_does_not_change_the_result():
    net, x = resnet18().eval(), torch.rand(2, 3, 64, 64)
    with torch.no_grad():
        plain = net(x)
        last = net.to(memory_format=torch.channels_last)(x.contiguous(memory_format=torch.channels_last))
    torch.testing.assert_close(plain, last, atol=1e-4, rtol=1e-4)


@pytest.mark.data
def test_real_weights_load_and_give_imagenet_logits():
    path = weight_file()
    whole = ResNet(num_outputs=1000)
    assert load_backbone(whole, path) == ()
    one = resnet18(weights=path)
    for key, value in whole.state_dict().items():
        if not key.startswith("fc."):
            assert torch.equal(value, one.state_dict()[key]), key
    assert one.fc.out_features == 1
    assert all(p.dtype == torch.float32 for p in one.parameters())
    with torch.no_grad():
        flat = whole.eval()(normalise(torch.full((1, 3, 64, 64), 128, dtype=torch.uint8)))
    assert torch.isfinite(flat).all()
    assert flat.std() > 0.5  # logits of a trained head; those of a random one are near 0


@pytest.mark.data
def test_real_file_has_exactly_our_keys():
    path = weight_file()
    with path.open("rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    listed = {k: tuple(v["shape"]) for k, v in header.items() if k != "__metadata__"}
    assert listed == {k: tuple(v.shape) for k, v in resnet18(1000).state_dict().items()}


# loading


@pytest.mark.parametrize("suffix", [".safetensors", ".pth", ".pt"])
def test_half_precision_is_cast_and_another_head_is_left_out(tmp_path, suffix):
    source, net = Tiny(outputs=10), Tiny(outputs=1)
    state = {k: v.half() if v.is_floating_point() else v for k, v in source.state_dict().items()}
    path = tmp_path / f"weights{suffix}"
    if suffix == ".safetensors":
        write_safetensors(path, state)
    else:
        torch.save(state, path)
    head = net.head.weight.clone()
    assert load_backbone(net, path) == ("head.weight", "head.bias")
    assert torch.equal(net.conv.weight, source.conv.weight.half().float())
    assert net.conv.weight.dtype == torch.float32
    assert torch.equal(net.head.weight, head)
    same = Tiny(outputs=10)
    assert load_backbone(same, path) == ()
    assert torch.equal(same.head.weight, source.head.weight.half().float())


def test_file_without_head_and_without_counters(tmp_path):
    state = {k: v for k, v in Tiny().state_dict().items() if "head" not in k and "num_batches" not in k}
    assert load_backbone(Tiny(), write_safetensors(tmp_path / "w.safetensors", state)) == ("head.weight", "head.bias")


def test_wrapped_state_dict(tmp_path):
    source, net = Tiny(), Tiny()
    torch.save({"state_dict": {f"module.{k}": v for k, v in source.state_dict().items()}}, tmp_path / "w.pth")
    assert load_backbone(net, tmp_path / "w.pth") == ()
    assert torch.equal(net.conv.weight, source.conv.weight)


def test_mismatches_name_the_keys(tmp_path):
    state = Tiny().state_dict()
    state["conv.weight"] = torch.zeros(5, 3, 3, 3)
    state["extra"] = torch.zeros(1)
    del state["bn.bias"]
    path = write_safetensors(tmp_path / "w.safetensors", state)
    net = Tiny()
    before = net.conv.weight.clone()
    with pytest.raises(WeightsError) as caught:
        load_backbone(net, path)
    text = str(caught.value)
    assert "w.safetensors does not fit" in text
    assert "missing: bn.bias" in text
    assert "unknown: extra" in text
    assert "conv.weight (5, 3, 3, 3) instead of (4, 3, 3, 3)" in text
    assert torch.equal(before, net.conv.weight)


def test_head_of_another_depth_is_an_error(tmp_path):
    state = Tiny().state_dict()
    state["head.weight"] = torch.zeros(10, 8)
    with pytest.raises(WeightsError, match=r"head.weight \(10, 8\)"):
        load_backbone(Tiny(), write_safetensors(tmp_path / "w.safetensors", state))


def test_missing_file_and_wrong_suffix(tmp_path):
    with pytest.raises(FileNotFoundError, match="no weight file"):
        load_backbone(Tiny(), tmp_path / "absent.pth")
    (tmp_path / "w.bin").write_bytes(b"x")
    with pytest.raises(WeightsError, match="must end in"):
        load_backbone(Tiny(), tmp_path / "w.bin")


def test_truncated_safetensors(tmp_path):
    whole = write_safetensors(tmp_path / "w.safetensors", Tiny().state_dict()).read_bytes()
    cut = tmp_path / "cut.safetensors"
    for size in [0, 4, 8, 20, 200, *range(250, len(whole), 61), len(whole) - 1]:
        cut.write_bytes(whole[:size])
        with pytest.raises(WeightsError, match="not a complete safetensors file"):
            load_backbone(Tiny(), cut)


@pytest.mark.parametrize(
    "header",
    [
        [1],
        {"a": 1},
        {"a": {}},
        {"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": ["x"], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}},
        {"a": {"dtype": "F32", "shape": [1], "data_offsets": "ab"}},
        {"a": {"dtype": "F32", "shape": [10**9], "data_offsets": [0, 4 * 10**9]}},
    ],
)
def test_bad_header(tmp_path, header):
    text = json.dumps(header).encode()
    path = tmp_path / "w.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"\0" * 16)
    with pytest.raises(WeightsError, match="not a complete safetensors file"):
        load_backbone(Tiny(), path)


def test_truncated_or_hostile_pth(tmp_path):
    path = tmp_path / "w.pth"
    torch.save(Tiny().state_dict(), path)
    whole = path.read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(WeightsError, match="damaged"):
            load_backbone(Tiny(), path)
    torch.save({"run": os.system}, path)
    with pytest.raises(WeightsError, match="damaged or holds more than tensors"):
        load_backbone(Tiny(), path)
    torch.save([1, 2], path)
    with pytest.raises(WeightsError, match="no state dict"):
        load_backbone(Tiny(), path)


# normalisation


def test_normalise_is_torchvisions_formula():
    x = torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8)
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (IMAGENET_MEAN, IMAGENET_STD))
    torch.testing.assert_close(normalise(x), (x / 255 - mean) / std, atol=1e-6, rtol=1e-5)


def test_normalise_repeats_grey_and_keeps_the_layout():
    grey = torch.randint(0, 256, (4, 1, 8, 8), dtype=torch.uint8)
    assert torch.equal(normalise(grey), normalise(grey.repeat(1, 3, 1, 1)))
    last = torch.zeros(4, 3, 8, 8, dtype=torch.uint8).contiguous(memory_format=torch.channels_last)
    assert Normalise()(last).is_contiguous(memory_format=torch.channels_last)
    assert not Normalise().state_dict()


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 4, 8, 8), (2, 8, 8, 3)])
def test_normalise_refuses_other_shapes(shape):
    with pytest.raises(ValueError, match="must have shape"):
        normalise(torch.zeros(shape, dtype=torch.uint8))


# names


def test_own_networks_by_name():
    assert isinstance(named_network("resnet18", 2), ResNet)
    assert named_network("resnet34").fc.out_features == 1


@pytest.mark.parametrize("name", ["convnext_tiny", "keras:vgg", "", "timm"])
def test_unknown_name_says_what_to_install(name):
    with pytest.raises(ValueError, match="pip install timm"):
        named_network(name)


def test_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ImportError, match="pip install timm"):
        named_network("timm:convnext_tiny")
    monkeypatch.setitem(sys.modules, "torchvision.models", None)
    with pytest.raises(ImportError, match="pip install torchvision"):
        named_network("torchvision:resnet50")


def test_networks_of_other_packages_have_untrained_weights(monkeypatch):
    calls = []
    timm = types.SimpleNamespace(
        is_model=lambda name: name == "tiny", create_model=lambda name, **kw: calls.append((name, kw)) or Tiny()
    )
    vision = types.SimpleNamespace(
        list_models=lambda module: ["tiny"], get_model=lambda name, **kw: calls.append((name, kw)) or Tiny()
    )
    monkeypatch.setitem(sys.modules, "timm", timm)
    monkeypatch.setitem(sys.modules, "torchvision", types.ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.models", vision)
    named_network("timm:tiny", 3)
    named_network("torchvision:tiny", 3)
    assert calls == [("tiny", {"pretrained": False, "num_classes": 3}), ("tiny", {"weights": None, "num_classes": 3})]
    for package in ("timm", "torchvision"):
        with pytest.raises(ValueError, match=f"{package} has no"):
            named_network(f"{package}:absent")
