"""Write the German credit table that comes with adacsl: the published one, with words in the place of its codes.

The meanings are those of the data set's own description at UCI (Statlog, German Credit Data).

    ADACSL_DATA=folder python -m benchmarks.quality.german_credit        # reads folder/german_credit.csv.gz
"""

import argparse
import gzip
import hashlib
import io
import os
from pathlib import Path

import pandas as pd

PUBLISHED = "8fbd13dcffe6163566db2440e095e4811d4ed6710f06f07fc5e8227967e97a21"
"""SHA-256 of the published file: 1,000 rows with codes, names of columns, and target (1: a bad customer)."""

OURS = Path(__file__).parents[2] / "src" / "adacsl" / "datasets" / "data" / "german_credit.csv.gz"

WORDS = {
    "status": {"A11": "below 0 DM", "A12": "0 to 200 DM", "A13": "200 DM or more", "A14": "no account"},
    "credit_history": {
        "A30": "no credits, or all paid back",
        "A31": "all credits here paid back",
        "A32": "existing credits paid so far",
        "A33": "paid late before",
        "A34": "critical, or credits elsewhere",
    },
    "purpose": {
        "A40": "new car",
        "A41": "used car",
        "A42": "furniture",
        "A43": "radio or television",
        "A44": "domestic appliances",
        "A45": "repairs",
        "A46": "education",
        "A47": "vacation",
        "A48": "retraining",
        "A49": "business",
        "A410": "others",
    },
    "savings": {
        "A61": "below 100 DM",
        "A62": "100 to 500 DM",
        "A63": "500 to 1,000 DM",
        "A64": "1,000 DM or more",
        "A65": "unknown or no savings",
    },
    "employment": {
        "A71": "unemployed",
        "A72": "below 1 year",
        "A73": "1 to 4 years",
        "A74": "4 to 7 years",
        "A75": "7 years or more",
    },
    "personal_status_sex": {
        "A91": "male, divorced or separated",
        "A92": "female, divorced, separated or married",
        "A93": "male, single",
        "A94": "male, married or widowed",
        "A95": "female, single",
    },
    "other_debtors": {"A101": "nobody", "A102": "co-applicant", "A103": "guarantor"},
    "property": {
        "A121": "real estate",
        "A122": "savings agreement or life insurance",
        "A123": "car or other",
        "A124": "unknown or no property",
    },
    "other_installment_plans": {"A141": "at a bank", "A142": "at stores", "A143": "no others"},
    "housing": {"A151": "rented", "A152": "own", "A153": "for free"},
    "job": {
        "A171": "unemployed, or unskilled and not resident",
        "A172": "unskilled and resident",
        "A173": "skilled employee or official",
        "A174": "manager, self-employed or highly qualified",
    },
    "telephone": {"A191": "no", "A192": "yes"},
    "foreign_worker": {"A201": "yes", "A202": "no"},
}


def with_words(published: bytes) -> bytes:
    """Return the published table with words, as CSV."""
    result = hashlib.sha256(published).hexdigest()
    if result != PUBLISHED:
        raise ValueError(f"this is not the published table: its SHA-256 is {result}, expected {PUBLISHED}")
    frame = pd.read_csv(io.BytesIO(gzip.decompress(published)))
    for column, words in WORDS.items():
        frame[column] = frame[column].map(words)
    unsaid = [name for name in frame if frame[name].isna().any() or frame[name].astype(str).str.startswith("A").any()]
    if unsaid:
        raise ValueError(f"codes without words in {unsaid}")
    return frame.to_csv(index=False, lineterminator="\n").encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OURS)
    given = parser.parse_args()
    table = with_words((Path(os.environ["ADACSL_DATA"]) / "german_credit.csv.gz").read_bytes())
    given.out.write_bytes(gzip.compress(table, compresslevel=9, mtime=0))
    print(f"{given.out}: {hashlib.sha256(given.out.read_bytes()).hexdigest()}")


if __name__ == "__main__":
    main()
