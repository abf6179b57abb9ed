"""Commands run inside the test process through the real entry point; one small model serves many tests."""

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def adacsl(called):
    """Run a command line."""
    from adacsl.cli.app import run

    return called(run)


@pytest.fixture
def refused(adacsl, refusal):
    """Run a command line that must be refused; return the one line that states why."""
    return refusal(adacsl)


def make_frame(n, seed=0):
    """Numbers with gaps, text, dates, costs, identifiers, and a label that depends on some of them."""
    rng = np.random.default_rng(seed)
    age, shop = rng.normal(40, 10, n), rng.choice(["web", "city", "mall"], n)
    label = age + 15 * (shop == "web") + rng.normal(0, 8, n) > 52
    return pd.DataFrame(
        {
            "id": [f"c{i}" for i in range(n)],
            "age": age,
            "gap": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "shop": shop,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
            "amount": rng.lognormal(2, 1, n).round(2),
            "churn": np.where(label, "yes", "no"),
        }
    )


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """A folder with a table as CSV and Parquet, and a model trained on it through the command line."""
    from adacsl.cli.app import run

    folder = tmp_path_factory.mktemp("cli")
    frame = make_frame(400)
    frame.to_csv(folder / "rows.csv", index=False, date_format="%Y-%m-%d")
    frame.to_parquet(folder / "rows.parquet")
    words = ["--target", "churn", "--pos-label", "yes", "--fn", "8", "--fp", "1", "--drop", "id", "--epochs", "3"]
    words += ["--method", "adacsl", "--cv", "2"]
    code = run(["train", str(folder / "rows.csv"), *words, "--out", str(folder / "model"), "--quiet"])
    assert code == 0
    return folder


@pytest.fixture
def rows(place):
    """The table of ``place``."""
    return pd.read_parquet(place / "rows.parquet")


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    """A folder with two classes of tiny images, and a model trained on them."""
    from PIL import Image

    from adacsl.cli.app import run

    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    for label, light in (("ill", 200), ("well", 60)):
        (folder / "data" / label).mkdir(parents=True)
        for i in range(12):
            pixels = np.clip(rng.normal(light, 30, (12, 12, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / "data" / label / f"{i:02d}.png")
    words = ["--pos-label", "ill", "--fn", "8", "--fp", "1", "--epochs", "1", "--image-size", "16", "--device", "cpu"]
    words += ["--method", "adacsl"]
    assert run(["train", str(folder / "data"), *words, "--out", str(folder / "model"), "--quiet"]) == 0
    return folder
