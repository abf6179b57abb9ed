"""``adacsl export``: a model as an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adacsl.cli.console import PLAIN, Answer, Screen
from adacsl.cli.model_folder import load_model
from adacsl.storage.atomic import check_file

if TYPE_CHECKING:
    from adacsl.estimators.classifier import CostSensitiveClassifier


SAMPLE = 64


def export(model: Path, *, onnx: Path, sample: str | None = None, screen: Screen = PLAIN) -> Answer:
    """Export a model to ONNX, with the outputs score, probability and decision.

    The graph is run on some rows before the file appears and must agree with the model.

    Parameters
    ----------
    model
        Folder of a saved model (`adacsl train --out`).
    onnx
        ONNX file to write.
    sample
        Table of rows to check the graph with; default: random rows of the kinds of columns the model was trained on.

    Examples
    --------
    adacsl export model/ --onnx model.onnx --sample rows.csv
    """
    check_file(onnx)
    classifier, _, _ = load_model(model, device="cpu")
    from adacsl.estimators.inputs import open_rows, takes_images  # noqa: PLC0415  pandas

    kind = classifier.model_.kind
    if kind in ("boosters", "constant"):
        what = "always decides the same" if kind == "constant" else f"is made of {kind}"
        raise ValueError(
            f"only neural networks and logistic regressions can be exported to ONNX, and {model} {what}: "
            "use it with  adacsl predict"
        )
    # base estimators of an ensemble with a graph have the same inputs; for others the export fails with the reason
    encoder = (classifier.model_.models[0] if kind == "stack" else classifier.model_).encoder
    rows = (
        _random_rows(classifier, encoder) if sample is None else next(open_rows(classifier, sample, rows=SAMPLE)[0])[0]
    )
    written = classifier.export_onnx(onnx, rows)
    size = written.stat().st_size
    if takes_images(classifier):
        takes = "images (bytes, N x H x W x C)"
    else:
        takes = "raw numbers" if encoder.only_numbers else "the columns by name (text as text, dates as seconds)"
    document = {"onnx": written, "bytes": size, "inputs": takes, "outputs": ["score", "probability", "decision"]}
    line = f"{written}: {size / 1e6:.1f} MB, takes {takes}, gives score, probability and decision"
    return Answer(document, (line,))


def _random_rows(classifier: CostSensitiveClassifier, encoder: Any) -> Any:
    """Return random rows of the kinds of columns the model was trained on."""
    from adacsl.estimators.inputs import takes_images  # noqa: PLC0415  pandas

    rng = np.random.default_rng(0)
    if takes_images(classifier):
        return rng.integers(0, 256, (4, *classifier.image_shape_), dtype=np.uint8)
    if not hasattr(encoder, "only_numbers"):  # a booster's
        return None
    import pandas as pd  # noqa: PLC0415

    rules = encoder.to_dict()["columns"]
    names = getattr(classifier, "feature_names_in_", [f"x{i}" for i in range(len(rules))])
    table = pd.DataFrame({name: _column(rule, rng) for name, rule in zip(names, rules, strict=True)})
    return table if hasattr(classifier, "feature_names_in_") else table.to_numpy()


def _column(rule: dict[str, Any] | None, rng: np.random.Generator) -> Any:
    if rule is None:
        return np.zeros(SAMPLE)
    if rule["kind"] == "category":
        return rng.choice(np.asarray([*rule["levels"], "?"], dtype=object), SAMPLE)
    scales = list(rule["scales"].values())
    knots = next((scale["knots"] for scale in scales if scale["knots"]), None)
    if rule["kind"] == "date":
        return (rule["fill"] + rng.integers(-(10**7), 10**7, SAMPLE)).astype("datetime64[s]")
    if knots:
        return rng.uniform(knots[0], knots[-1], SAMPLE)
    return scales[0]["center"] + scales[0]["width"] * rng.normal(size=SAMPLE)
