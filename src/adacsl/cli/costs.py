"""``adacsl costs``: a cost matrix to fill in."""

from __future__ import annotations

from pathlib import Path

from adacsl.cli.console import PLAIN, Answer, Screen
from adacsl.cli.options import AS_FOUND, Files
from adacsl.storage.atomic import check_file
from adacsl.storage.tables import writing

MEANING = "rows are predicted, columns are actual: row a, column b is what it costs to predict a where b is true"


def template(
    data: str | None = None,
    *,
    target: str | None = None,
    out: Path | None = None,
    files: Files = AS_FOUND,
    screen: Screen = PLAIN,
) -> Answer:
    """Write a cost matrix with the classes of your data: 0 where the prediction is right, 1 elsewhere.

    Put your own prices into it, then say --costs matrix.csv to the other commands. Rows are predicted, columns are
    actual.

    Parameters
    ----------
    data
        Table (CSV, Parquet, Excel, ...), folder with one subfolder of pictures per class, .npz archive, or a name
        (`adacsl data`); or --sql.
    target
        Column of the labels; may be left out where it is called target.
    out
        CSV file to write, which must not be there yet; default: print it.

    Examples
    --------
    adacsl costs template flowers.csv --target kind --out matrix.csv
    adacsl costs template photos/ --out matrix.csv
    """
    from adacsl.base.escape import guarded  # noqa: PLC0415
    from adacsl.costs.matrix import CostMatrix  # noqa: PLC0415
    from adacsl.datasets.loading import data_classes  # noqa: PLC0415  pandas

    if out is not None:
        check_file(out)
        if out.suffix.lower() != ".csv":
            raise ValueError(f"a cost matrix is a CSV file: give --out a name that ends in .csv, not {out}")
        if out.exists():
            raise FileExistsError(f"{out} is there already and may hold your prices: give another name with --out")
    classes = data_classes(data, target=target, **files.how)
    ones = [[float(i != j) for j in range(len(classes))] for i in range(len(classes))]
    costs = CostMatrix.from_array(ones, rows="predicted", classes=classes)
    frame = costs.to_frame().astype(int).rename(index=guarded, columns=guarded)
    text = frame.to_csv(lineterminator="\n")
    document = {"classes": list(classes), "costs": ones, "rows": "predicted", "out": out}
    if out is None:
        screen.note(MEANING)
        return Answer(document, (text.rstrip("\n"),))
    with writing(out) as draft:
        draft.write_text(text, encoding="utf-8")
    return Answer(document, (f"{len(classes)} classes; {MEANING}", f"written: {out}"))
