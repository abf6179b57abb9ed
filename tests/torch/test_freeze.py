"""Networks of own training loops as graphs: the same scores, without the network's code."""

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("onnxscript")

from adacsl import CostMatrix, CostSensitiveClassifier, load
from adacsl.torch import freeze

COSTS = CostMatrix(fp=1, fn=6)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def table_net(outputs=2):
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, outputs))


def test_a_network_of_a_table(tmp_path):
    X = np.random.default_rng(0).normal(size=(100, 3))
    y = (X[:, 0] > 0).astype(int)
    net = table_net()
    own = freeze(net, X[:5], labels=["stays", "leaves"])
    assert net.training
    assert all(part.training for part in net.modules())
    net.eval()
    with torch.no_grad():
        wanted = net(torch.tensor(X).float()).softmax(1).numpy()
    np.testing.assert_allclose(own.predict_proba(X), wanted, atol=1e-5)
    np.testing.assert_allclose(own.predict_proba(X[:1]), wanted[:1], atol=1e-5)
    labels = np.asarray(["stays", "leaves"])[y]
    model = CostSensitiveClassifier(COSTS, learner=own, decide="tuned", pos_label="leaves").fit(X, labels)
    content = next((model.save(tmp_path / "model")).glob("*.safetensors")).read_bytes()
    assert b"test_freeze" not in content  # no path of the machine that made it
    assert str(torch.__path__[0]).encode() not in content
    assert (load(tmp_path / "model").predict(X) == model.predict(X)).all()


@pytest.mark.parametrize("ends", ["probability", "flat"])
def test_one_score_is_about_the_second_class(ends):
    net = nn.Sequential(table_net(1), {"probability": nn.Sigmoid(), "flat": nn.Flatten(0)}[ends])
    X = torch.randn(6, 3)
    own = freeze(net, X)
    net.eval()
    with torch.no_grad():
        raw = net(X).flatten()
    np.testing.assert_allclose(
        own.predict_proba(X.numpy())[:, 1], (raw if ends == "probability" else raw.sigmoid()).numpy(), atol=1e-5
    )


def test_images_with_their_own_normalisation(tmp_path):
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
    pixels = np.random.default_rng(0).integers(0, 256, (30, 9, 7, 1), dtype=np.uint8)

    def prepare(images):
        return (images.float().permute(0, 3, 1, 2) / 255 - 0.3) / 0.2

    own = freeze(net, pixels[:3], preprocess=prepare)
    assert (own.kind, own.image_size) == ("images", (9, 7))
    with torch.no_grad():
        wanted = net(prepare(torch.tensor(pixels))).softmax(1).numpy()
    np.testing.assert_allclose(own.predict_proba(pixels), wanted, atol=1e-5)
    model = CostSensitiveClassifier(COSTS, learner=own).fit(pixels, np.arange(30) % 2)
    assert (load(model.save(tmp_path / "model")).predict(pixels) == model.predict(pixels)).all()


def test_a_hugging_face_classifier():
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=30, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        max_position_embeddings=16, num_labels=2,
    )  # fmt: skip
    net = transformers.BertForSequenceClassification(config).eval()
    rng = np.random.default_rng(0)
    given = {"input_ids": rng.integers(0, 30, (50, 6)), "attention_mask": np.ones((50, 6), dtype=np.int64)}
    given["attention_mask"][:, 4:] = rng.integers(0, 2, (50, 1))
    own = freeze(net, {name: values[:2] for name, values in given.items()})
    with torch.no_grad():
        logits = net(**{name: torch.tensor(values) for name, values in given.items()}).logits
    np.testing.assert_allclose(own.predict_proba(given), logits.softmax(1).numpy(), atol=1e-5)


class Sorts(nn.Module):
    """A network that does something else for a single sample."""

    def forward(self, x):
        return x[:, :2] if len(x) > 1 else -x[:, :2]


class Walks(nn.Module):
    """A network whose path depends on the values."""

    def forward(self, x):
        return x[:, :2] if float(x.sum()) > 0 else x[:, 1:]


@pytest.mark.parametrize("net", [Sorts(), Walks()])
def test_networks_that_no_graph_can_represent_are_refused(net):
    with pytest.raises(
        ValueError, match=r"(cannot be exported to ONNX|gives other scores|2 samples at a time).*ScoreClassifier"
    ) as caught:
        freeze(net, torch.randn(4, 3))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("net", "examples", "error", "match"),
    [
        ("net", torch.zeros(2, 3), TypeError, r"must be a trained torch\.nn\.Module, got str"),
        (nn.Identity(), torch.zeros(2, 3, 4), ValueError, r"must return scores of shape \(n,\) or \(n, K\)"),
        (nn.Linear(3, 2), torch.zeros(0, 3), ValueError, "example_inputs must be some samples"),
        (nn.Linear(3, 2), torch.tensor(1.0), ValueError, "example_inputs must be some samples"),
    ],
)
def test_wrong_arguments(net, examples, error, match):
    with pytest.raises(error, match=match):
        freeze(net, examples)
