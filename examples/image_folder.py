"""A classifier from a folder with one subfolder per class.

python examples/image_folder.py

The images are made here: noise, with a brighter spot in those of the class "spot". Two epochs show that it runs, not
how well it could do; real images need pretrained weights ({"weights": "resnet18.safetensors"}) and the default 15
epochs.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from adacsl import AdaCSLClassifier, CostMatrix
from adacsl.neural import NeuralLearner


def make_folder(folder: Path, n: int = 60) -> None:
    rng = np.random.default_rng(0)
    for number in range(n):
        name = "spot" if number % 3 == 0 else "plain"
        pixels = rng.integers(60, 160, (48, 48, 3))
        if name == "spot":
            top, left = rng.integers(4, 28, 2)
            pixels[top : top + 16, left : left + 16] += 80
        (folder / name).mkdir(exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{number}.png")


torch.set_num_threads(1)
with tempfile.TemporaryDirectory() as scratch:
    make_folder(Path(scratch))
    net = {"image_size": 48, "epochs": 2, "batch_size": 16}
    clf = AdaCSLClassifier(CostMatrix(fp=1, fn=4), learner=NeuralLearner(**net), pos_label="spot", random_state=0)
    clf.fit(scratch)  # the labels are the subfolders' names
    print(clf.history_[["epoch", "lambda", "val_cost"]])
    print(f"estimated cost per image: {clf.estimated_cost_}")
    files = sorted(Path(scratch, "spot").glob("*.png"))[:3]
    print(clf.predict(files), clf.predict_proba(files).round(2), sep="\n")
