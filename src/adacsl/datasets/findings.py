"""Findings of data checks: codes, severities, texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from adacsl.base.html import html_table
from adacsl.datasets.errors import DataError, DataWarning, did_you_mean, listed

if TYPE_CHECKING:
    import pandas as pd


Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
PAGE = "docs/checks.md"


class CheckWarning(DataWarning):
    """Data with an error, which makes results worthless until it is repaired."""


class Code(NamedTuple):
    """What a code stands for: how bad it is, and what was seen in a few words."""

    severity: Severity
    title: str


CODES: dict[str, Code] = {
    # data
    "target-leakage": Code("error", "one column alone gives the label away"),
    "infinite-values": Code("error", "a column holds infinite numbers, which no model takes"),
    "cost-leakage": Code("warning", "a price is known only once the label is"),
    "few-positives": Code("warning", "a class has too few rows to say what its errors cost"),
    "few-rows": Code("warning", "too few rows to tell methods apart"),
    "costs-not-given": Code("warning", "nobody said what errors cost"),
    "row-dominates": Code("warning", "one row, or few, carry most of what errors could cost"),
    "cost-below-correct": Code("warning", "an error costs less than being right"),
    "time-ignored": Code("warning", "rows have a time, and are split by chance"),
    "groups-likely": Code("warning", "rows seem to belong together, and are split apart"),
    "duplicate-rows": Code("warning", "rows are copies of others"),
    "looks-like-id": Code("warning", "a column only names or counts the rows"),
    "unique-text": Code("warning", "text that is different in nearly every row"),
    "empty-column": Code("info", "a column without any value"),
    "constant-column": Code("info", "a column with one value only"),
    "rare-positive": Code("info", "fewer than one row in a hundred is positive"),
    "positive-is-common": Code("info", "the class with the dear misses is the common one"),
    # fitted models
    "no-better-than-constant": Code("warning", "the model is not clearly cheaper than one decision for all"),
    "badly-calibrated": Code("warning", "the probabilities are not what they say"),
    "threshold-at-border": Code("warning", "all held-out rows are decided alike"),
    "lambda-at-bound": Code("warning", "the controller's lambda has run into its bound"),
    "stopped-early": Code("info", "training ended before it was done"),
}


class Finding(NamedTuple):
    """One thing that looks wrong: its code, how bad it is, and one line that says what was seen and what to do."""

    code: str
    severity: Severity
    text: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.text} [{self.code}]"


def finding(code: str, text: str, severity: Severity | None = None) -> Finding:
    """Return a finding with the severity of its code, unless another one is said."""
    return Finding(code, severity or CODES[code].severity, text)


@dataclass(frozen=True)
class Checks:
    """What checks have found, the worst first; empty where all is well.

    Parameters
    ----------
    findings : tuple of Finding
    ignored : tuple of str
        Codes that were silenced.

    Examples
    --------
    >>> found = Checks.of([finding("constant-column", "column 'a' is always 1: leave it out (--drop a)")])
    >>> print(found)
    info: column 'a' is always 1: leave it out (--drop a) [constant-column]
    >>> found.without(["constant-column"])
    Checks(findings=(), ignored=('constant-column',))
    """

    findings: tuple[Finding, ...] = ()
    ignored: tuple[str, ...] = ()

    @classmethod
    def of(cls, findings: Iterable[Finding], ignore: Iterable[str] = ()) -> Checks:
        """Return findings, the worst first, without those whose codes are silenced."""
        codes = known_codes(ignore)
        kept = [found for found in findings if found.code not in codes]
        return cls(tuple(sorted(kept, key=lambda found: SEVERITIES.index(found.severity))), codes)

    @classmethod
    def from_list(cls, documents: Iterable[dict[str, Any]]) -> Checks:
        """Read what :meth:`to_list` gave."""
        return cls.of(Finding(each["code"], each["severity"], each["text"]) for each in documents)

    def without(self, ignore: Iterable[str]) -> Checks:
        """Return the findings with other codes than these."""
        return Checks.of(self.findings, (*self.ignored, *ignore))

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __bool__(self) -> bool:
        return bool(self.findings)

    def __str__(self) -> str:
        return "\n".join(map(str, self.findings)) or "nothing was found"

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of what was found, each once."""
        return tuple(dict.fromkeys(found.code for found in self.findings))

    @property
    def has_errors(self) -> bool:
        """Whether something was found that makes results worthless until it is repaired."""
        return any(found.severity == "error" for found in self.findings)

    def to_list(self) -> list[dict[str, str]]:
        """Return code, severity, text and page of documentation of each finding, as JSON values."""
        return [{**found._asdict(), "page": f"{PAGE}#{found.code}"} for found in self.findings]

    def frame(self) -> pd.DataFrame:
        """Return the findings as a table."""
        import pandas as pd  # noqa: PLC0415  codes are known without it

        return pd.DataFrame(self.to_list(), columns=[*Finding._fields, "page"])

    def _repr_html_(self) -> str:
        if not self.findings:
            return f"<p>{self}</p>"
        return html_table([(found.code, found.severity, found.text) for found in self])


def known_codes(ignore: Iterable[str]) -> tuple[str, ...]:
    """Return the codes to silence, each once; refuse one that is no code.

    >>> known_codes(["duplicates"])
    Traceback (most recent call last):
        ...
    adacsl.datasets.errors.DataError: there is no check 'duplicates'; did you mean 'duplicate-rows'?
    """
    codes = tuple(dict.fromkeys([ignore] if isinstance(ignore, str) else ignore))
    for code in codes:
        if code not in CODES:
            near = did_you_mean(code, CODES) or f": codes are {listed(CODES, 30)}"
            raise DataError(f"there is no check {code!r}{near}")
    return codes
