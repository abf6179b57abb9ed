"""Pictures as base64, as bytes of an Arrow column, or one as the body."""

import base64
import io

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image

from adacsl import AdaCSLClassifier, CostMatrix
from adacsl.neural import NeuralLearner

SIZE = 12


def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(SIZE * SIZE * 3, 1))


def encoded(pixels, kind="PNG"):
    sink = io.BytesIO()
    Image.fromarray(pixels).save(sink, kind)
    return sink.getvalue()


@pytest.fixture(scope="module")
def pixels():
    rng = np.random.default_rng(0)
    light = np.where(np.arange(24) % 2, 190, 70)[:, None, None, None]
    return np.clip(rng.normal(light, 30, (24, SIZE, SIZE, 3)), 0, 255).astype(np.uint8)


def fit(pixels):
    settings = {"module": net, "epochs": 1, "augment": False, "batch_size": 8}
    model = AdaCSLClassifier(
        CostMatrix(fp=1, fn=4), cv=None, learner=NeuralLearner(**settings), device="cpu", random_state=0
    )
    return model.fit(pixels, np.arange(len(pixels)) % 2)


@pytest.fixture(scope="module")
def model(pixels):
    return fit(pixels)


@pytest.fixture(scope="module")
def client(model, client_of):
    return client_of(model, rows=8)


def as_text(content):
    return base64.b64encode(content).decode()


def test_base64_bytes_and_bodies_mean_the_same(client, model, pixels):
    files = [encoded(one) for one in pixels[:4]]
    result = client.post("/predict", json={"rows": [{"image": as_text(one)} for one in files]}).json()["rows"]
    assert [one["decision"] for one in result] == model.predict(pixels[:4]).tolist()
    np.testing.assert_array_equal([one["probability"] for one in result], model.predict_proba(pixels[:4])[:, 1])
    sink = pa.BufferOutputStream()
    table = pa.table({"image": pa.array(files)})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    kind = "application/vnd.apache.arrow.stream"
    answer = client.post("/predict", content=bytes(sink.getvalue()), headers={"content-type": kind})
    assert pa.ipc.open_stream(answer.content).read_all().to_pylist() == result
    (alone,) = client.post("/predict", content=files[2], headers={"content-type": "image/png"}).json()["rows"]
    assert alone["decision"] == result[2]["decision"]
    assert alone["probability"] == model.predict_proba(pixels[2:3])[0, 1]


def test_pictures_of_another_size_are_resized_as_in_python(client, model, pixels, tmp_path):
    large = np.repeat(np.repeat(pixels[0], 3, axis=0), 3, axis=1)
    (tmp_path / "large.png").write_bytes(encoded(large))
    result = client.post("/predict", content=encoded(large), headers={"content-type": "image/png"}).json()
    assert result["rows"][0]["probability"] == model.predict_proba([tmp_path / "large.png"])[0, 1]


def test_what_is_no_picture_is_named(client, pixels, monkeypatch):
    good = as_text(encoded(pixels[0]))

    def reply(value):
        answer = client.post("/predict", json={"columns": {"image": [good, value]}})
        assert answer.status_code == 422
        return answer.json()["detail"]

    place = "row 1 (the first is 0), column 'image': "
    assert reply("%%%").startswith(f"{place}expected an image, as base64 text")
    assert reply(3).endswith("got 3 (a number)")
    assert reply(as_text(b"hello")).startswith(f"{place}these 5 bytes are not a readable image (PNG, JPEG")
    torn = as_text(encoded(pixels[0])[:-40])
    assert "cannot read row 1" in reply(torn)
    monkeypatch.setattr("adacsl.serving.images.PIXELS", 1000)
    assert reply(as_text(encoded(np.zeros((40, 40, 3), np.uint8)))).startswith(f"{place}the images up to this one have")
    many = client.post("/predict", json={"rows": [{"image": good}] * 9})
    assert "there are more than 8 rows" in many.json()["detail"]


def test_pixels_are_counted_over_the_whole_request(client, pixels, monkeypatch):
    monkeypatch.setattr("adacsl.serving.images.PIXELS", 4000)
    large, small = (as_text(encoded(np.zeros((side, side, 3), np.uint8))) for side in (40, 4))
    assert client.post("/predict", json={"columns": {"image": [large] * 2}}).status_code == 200
    for pictures, total in (([large] * 3, "4,800"), ([large, large] + [small] * 6, "4,064")):
        answer = client.post("/predict", json={"columns": {"image": pictures}})
        assert answer.status_code == 422  # a small image takes the place of one as the model takes it, 12 x 12
        assert f"the images up to this one have {total} pixels" in answer.json()["detail"]


def test_a_model_of_grey_pictures_takes_no_colours(client_of, pixels):
    model = fit(pixels[..., :1])
    client = client_of(model)
    grey = np.repeat(pixels[1, :, :, :1], 3, axis=2)
    result = client.post("/predict", content=encoded(grey), headers={"content-type": "image/png"}).json()
    assert result["rows"][0]["probability"] == model.predict_proba(pixels[1:2, :, :, :1])[0, 1]
    answer = client.post("/predict", content=encoded(pixels[1]), headers={"content-type": "image/png"})
    assert "expects grayscale images" in answer.json()["detail"]


def test_the_page_says_that_pictures_are_taken(client):
    content = client.get("/openapi.json").json()["paths"]["/predict"]["post"]["requestBody"]["content"]
    assert "image/*" in content
    assert client.get("/model").json()["image"] == {"height": SIZE, "width": SIZE, "channels": 3}
