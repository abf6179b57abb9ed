"""From a fitted model to a monitored service, one real pipeline each, every step timed; the decisions are compared.

    python -m benchmarks.speed.fitted_models
    python -m benchmarks.speed.fitted_models --only text lightgbm

A ColumnTransformer with text before a logistic regression, LightGBM in a Pipeline, a convolutional network of an own
PyTorch loop, a small Hugging Face classifier. Each is fitted first; then its decision is fitted (``fit``), the model
saved, loaded in a fresh process (which says whether torch was imported), served by ``adacsl serve``, asked over HTTP,
and monitored by ``adacsl monitor`` (images and tokens: ``adacsl.monitor`` in a fresh process). The decisions of the
fitted model, of the fresh process and of the server must be the same. Data are made, seed 0.

Writes benchmarks/results/fitted_models.json.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import io
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from adacsl import CostMatrix, CostSensitiveClassifier
from benchmarks.harness import metadata

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks/results/fitted_models.json"
COSTS = CostMatrix(fp=1, fn=5)
ROWS = 400
"""Samples that fit the decision; as many are new, 50 of them are asked about."""
ASKED = 50
LOAD = """
import json, sys, time
start = time.perf_counter()
import adacsl, numpy as np
model = adacsl.load(sys.argv[1])
loaded = time.perf_counter() - start
{read}
start = time.perf_counter()
decided = [str(label) for label in model.predict(X)]
answer = {{"load": loaded, "predict": time.perf_counter() - start, "torch": "torch" in sys.modules, "decided": decided}}
start = time.perf_counter()
{monitor}
print(json.dumps(answer))
"""
MONITOR = (
    'answer["monitored"] = adacsl.monitor(model, X, y).recommendation; answer["monitor"] = time.perf_counter() - start'
)


class Case(NamedTuple):
    """A fitted model, samples to fit its decision, and new ones in every form that they are given in."""

    learner: Any
    X: Any
    y: Any
    new: Any
    new_y: Any
    records: list[dict[str, Any]]
    """The first new samples, as a request has them."""
    pos_label: Any
    table: pd.DataFrame | None = None
    """New samples as a file for the command line."""
    arrays: dict[str, Any] | None = None
    """New samples as arrays, where they are no table."""


# models


def _table() -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(0)
    n = 3 * ROWS
    y = (rng.random(n) < 0.3).astype(int)
    words = np.asarray(["late", "refund", "angry", "broken", "happy", "thanks", "good", "fine", "order", "parcel"])
    text = [" ".join(rng.choice(words[:4] if label and rng.random() < 0.5 else words, 12)) for label in y]
    table = pd.DataFrame(
        {
            "text": text,
            "city": rng.choice(["Bern", "Rome", "Oslo"], n),
            "amount": rng.lognormal(size=n) + 0.6 * y,
            "age": rng.integers(18, 90, n),
        }
    )
    return table, np.where(y == 1, "leaves", "stays")


def _of_table(pipeline: Any, table: pd.DataFrame, y: Any) -> Case:
    from sklearn.frozen import FrozenEstimator  # noqa: PLC0415

    train, fit, new = (np.s_[i * ROWS : (i + 1) * ROWS] for i in range(3))
    pipeline.fit(table[train], y[train])
    later = table[new].reset_index(drop=True)
    return Case(
        FrozenEstimator(pipeline), table[fit], y[fit], later, y[new], later[:ASKED].to_dict(orient="records"), "leaves",
        table=later.assign(leaves=y[new]),
    )  # fmt: skip


def text() -> Case:
    """Return a ColumnTransformer with text before a logistic regression."""
    from sklearn.compose import make_column_transformer  # noqa: PLC0415
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import OneHotEncoder, StandardScaler  # noqa: PLC0415

    columns = make_column_transformer(
        (TfidfVectorizer(), "text"), (OneHotEncoder(handle_unknown="ignore"), ["city"]), (StandardScaler(), ["amount"])
    )
    return _of_table(make_pipeline(columns, LogisticRegression()), *_table())


def lightgbm() -> Case:
    """Return LightGBM in a Pipeline."""
    from lightgbm import LGBMClassifier  # noqa: PLC0415
    from sklearn.compose import make_column_transformer  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import OrdinalEncoder  # noqa: PLC0415

    ordinal = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    columns = make_column_transformer((ordinal, ["city"]), ("passthrough", ["amount", "age"]))
    model = LGBMClassifier(n_estimators=50, verbose=-1, n_jobs=1, random_state=0)
    return _of_table(make_pipeline(columns, model), *_table())


def _train(net: Any, inputs: Callable[[Any], Any], y: Any, steps: int) -> None:
    import torch  # noqa: PLC0415

    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    rng = np.random.default_rng(0)
    for _ in range(steps):
        rows = rng.integers(0, len(y), 64)
        loss = torch.nn.functional.cross_entropy(inputs(rows), torch.from_numpy(y[rows]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def cnn() -> Case:
    """Return a convolutional network of an own loop, its normalisation in the graph."""
    import torch  # noqa: PLC0415
    from PIL import Image  # noqa: PLC0415
    from torch import nn  # noqa: PLC0415

    from adacsl.torch import freeze  # noqa: PLC0415

    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    y = (rng.random(3 * ROWS) < 0.3).astype(np.int64)
    pixels = rng.integers(0, 256, (3 * ROWS, 24, 20, 3)).astype(np.float64)
    pixels[:, 6:14, 6:14, 0] += 40.0 * y[:, None, None]
    pixels = pixels.clip(0, 255).astype(np.uint8)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
        nn.Flatten(), nn.Linear(32, 2),
    )  # fmt: skip
    mean, std = torch.tensor([0.48, 0.46, 0.41]), torch.tensor([0.23, 0.22, 0.23])

    def prepare(images: Any) -> Any:
        return ((images.float() / 255.0 - mean) / std).permute(0, 3, 1, 2)

    _train(net, lambda rows: net(prepare(torch.from_numpy(pixels[rows]))), y[:ROWS], 200)
    learner = freeze(net, pixels[:4], preprocess=prepare, labels=["whole", "broken"])
    names = np.where(y == 1, "broken", "whole")
    fit, new = np.s_[ROWS : 2 * ROWS], np.s_[2 * ROWS :]
    records = []
    for image in pixels[new][:ASKED]:
        Image.fromarray(image).save(file := io.BytesIO(), "PNG")
        records.append({"image": base64.b64encode(file.getvalue()).decode()})
    arrays = {"X": pixels[new]}
    return Case(learner, pixels[fit], names[fit], pixels[new], names[new], records, "broken", arrays=arrays)


def tokens() -> Case:
    """Return a small Hugging Face classifier of token sequences."""
    import torch  # noqa: PLC0415
    from transformers import BertConfig, BertForSequenceClassification  # noqa: PLC0415

    from adacsl.torch import freeze  # noqa: PLC0415

    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    y = (rng.random(3 * ROWS) < 0.3).astype(np.int64)
    ids = rng.integers(10, 200, (3 * ROWS, 24))
    ids[np.arange(len(y)), rng.integers(0, 12, len(y))] = np.where(y == 1, rng.integers(1, 6, len(y)), 9)
    mask = (np.arange(24) < rng.integers(12, 25, len(y))[:, None]).astype(np.int64)
    ids = ids * mask
    config = BertConfig(
        vocab_size=200, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=32, num_labels=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    net = BertForSequenceClassification(config)

    def logits(rows: Any) -> Any:
        return net(input_ids=torch.from_numpy(ids[rows]), attention_mask=torch.from_numpy(mask[rows])).logits

    _train(net, logits, y[:ROWS], 150)
    given = {"input_ids": ids, "attention_mask": mask}
    learner = freeze(net, {name: array[:4] for name, array in given.items()})
    fit, new = (
        {name: array[some] for name, array in given.items()} for some in (np.s_[ROWS : 2 * ROWS], np.s_[2 * ROWS :])
    )
    records = [{name: array[i].tolist() for name, array in new.items()} for i in range(ASKED)]
    return Case(learner, fit, y[ROWS : 2 * ROWS], new, y[2 * ROWS :], records, 1, arrays=new)


CASES = {"text": text, "lightgbm": lightgbm, "cnn": cnn, "tokens": tokens}


# steps


def walk(case: Case, folder: Path) -> dict[str, Any]:
    """Take all steps with one model; return the seconds of each. Other decisions are an error."""
    folder.mkdir(parents=True, exist_ok=True)
    seconds: dict[str, float] = {}
    with _timed(seconds, "fit"):
        model = CostSensitiveClassifier(COSTS, learner=case.learner, decide="tuned", pos_label=case.pos_label)
        model.fit(case.X, case.y)
    with _timed(seconds, "predict"):
        wanted = list(map(str, model.predict(case.new)))
    with _timed(seconds, "save"):
        model.save(folder / "model")
    shown = _fresh(case, folder)
    seconds |= {"load in a fresh process": shown["load"], "predict in a fresh process": shown["predict"]}
    decided = {"fresh process": shown["decided"]}
    with _served(folder / "model", seconds) as address:
        with _timed(seconds, "first request"):
            answer = _ask(address, case.records)
        with _timed(seconds, "second request"):
            _ask(address, case.records)
    decided["server"] = [str(row["decision"]) for row in answer["rows"]]
    if case.table is None:
        seconds["monitor"] = shown["monitor"]
        recommendation = shown["monitored"]
    else:
        file = folder / "new.csv"
        case.table.to_csv(file, index=False)
        with _timed(seconds, "adacsl predict"):
            _command("predict", folder / "model", file, "--out", folder / "out.csv")
        decided["adacsl predict"] = pd.read_csv(folder / "out.csv")["decision"].astype(str).tolist()
        with _timed(seconds, "monitor"):
            recommendation = _command("monitor", folder / "model", file, "--labels", "leaves")["recommendation"]
    for where, labels in decided.items():
        if labels != wanted[: len(labels)]:
            raise AssertionError(f"other decisions: {where}")
    size = sum(file.stat().st_size for file in (folder / "model").iterdir())
    return {
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "decisions compared": {name: len(labels) for name, labels in decided.items()},
        "torch imported when predicting": shown["torch"],
        "bytes": size,
        "cost": float(model.estimated_cost_.estimate),
        "recommendation": recommendation,
    }


@contextlib.contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - start


def _fresh(case: Case, folder: Path) -> dict[str, Any]:
    if case.arrays is None:
        assert case.table is not None
        case.table.to_pickle(folder / "new.pickle")  # ours, of this run: the columns with their types
        read = "import pandas as pd\nX = pd.read_pickle(sys.argv[2] + '/new.pickle').drop(columns='leaves')"
        code = LOAD.format(read=read, monitor="")
    else:
        np.savez(folder / "new.npz", y=np.asarray(case.new_y), **case.arrays)
        read = (
            "file = np.load(sys.argv[2] + '/new.npz'); y = file['y']\nX = {k: file[k] for k in file.files if k != 'y'}"
        )
        read += "\nX = X['X'] if 'X' in X else X"
        code = LOAD.format(read=read, monitor=MONITOR)
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code, str(folder / "model"), str(folder)], capture_output=True, text=True, check=True
    )
    shown: dict[str, Any] = json.loads(done.stdout)
    return shown


@contextlib.contextmanager
def _served(model: Path, seconds: dict[str, float]) -> Iterator[str]:
    start = time.perf_counter()
    command = [sys.executable, "-m", "adacsl.cli", "serve", str(model), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as server:  # noqa: S603
        try:
            assert server.stderr is not None
            lines: list[str] = []
            for line in server.stderr:
                lines.append(line)
                if found := re.search(r"http://[0-9.:]+", line):
                    break
            else:
                raise RuntimeError("".join(lines))
            while True:  # until it is ready
                with contextlib.suppress(OSError), urllib.request.urlopen(f"{found[0]}/ready", timeout=5):  # noqa: S310
                    break
                time.sleep(0.02)
            seconds["serve until ready"] = time.perf_counter() - start
            yield found[0]
        finally:
            server.terminate()
            server.wait(30)


def _ask(address: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    request = urllib.request.Request(  # noqa: S310
        f"{address}/predict", json.dumps({"rows": records}).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        shown: dict[str, Any] = json.loads(answer.read())
    return shown


def _command(*words: Any) -> dict[str, Any]:
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "adacsl.cli", *map(str, words), "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 3, 4):
        raise RuntimeError(done.stderr)
    shown: dict[str, Any] = json.loads(done.stdout)
    return shown


def main() -> None:
    """Take all steps with all models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--json", type=Path, default=RESULTS)
    args = parser.parse_args()
    results: dict[str, Any] = {}
    for name in args.only:
        start = time.perf_counter()
        case = CASES[name]()
        made = time.perf_counter() - start
        with tempfile.TemporaryDirectory() as folder:
            results[name] = {"train and freeze": round(made, 2)} | walk(case, Path(folder))
        print(name, json.dumps(results[name], indent=1), flush=True)
    about = metadata() | {"command": "python -m benchmarks.speed.fitted_models"}
    if set(results) == set(CASES):
        args.json.write_text(json.dumps({"about": about, "models": results}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
