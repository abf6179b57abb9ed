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
PAGE = "docs/guide/diagnose/checks.md"


class CheckWarning(DataWarning):
    """A data check found an error that makes results worthless until it is repaired."""


class Code(NamedTuple):
    """Severity and title of a code."""

    severity: Severity
    title: str


CODES: dict[str, Code] = {
    # data
    "target-leakage": Code("error", "target leakage: one column alone determines the class"),
    "infinite-values": Code("error", "a column holds infinite numbers, which models refuse"),
    "cost-leakage": Code("warning", "a cost depends on the label: unknown at prediction time"),
    "few-positives": Code("warning", "too few samples of a class to estimate the cost of its errors"),
    "few-rows": Code("warning", "too few samples for significant differences between methods"),
    "costs-not-given": Code("warning", "no costs were given"),
    "row-dominates": Code("warning", "one sample, or few, carry most of the possible cost"),
    "cost-below-correct": Code("warning", "an error costs less than a correct prediction"),
    "time-ignored": Code("warning", "samples have a time, but folds are random"),
    "groups-likely": Code("warning", "samples seem to form groups, which are split across folds"),
    "duplicate-rows": Code("warning", "duplicate samples"),
    "looks-like-id": Code("warning", "a column identifies or numbers the samples"),
    "unique-text": Code("warning", "text that differs in nearly every sample"),
    "empty-column": Code("info", "a column without any value"),
    "constant-column": Code("info", "a column with one value only"),
    "rare-positive": Code("info", "fewer than one sample in a hundred is positive"),
    "positive-is-common": Code("info", "the class with the costly false negatives is the common one"),
    # fitted models
    "no-better-than-constant": Code("warning", "no significant saving against the constant baseline"),
    "badly-calibrated": Code("warning", "predicted probabilities differ from observed frequencies"),
    "threshold-at-border": Code("warning", "all held-out samples get one decision"),
    "lambda-at-bound": Code("warning", "the controller's lambda reached its bound"),
    "stopped-early": Code("info", "training ended early"),
}


class Finding(NamedTuple):
    """A finding of a check.

    Attributes
    ----------
    code : str
        Its code, such as "target-leakage".
    severity : {"error", "warning", "info"}
        How severe it is.
    text : str
        One line with the observation and the remedy.

    Examples
    --------
    >>> from adacsl.datasets.findings import finding
    >>> finding("constant-column", "column 'a' is always 1: exclude it").severity
    'info'
    """

    code: str
    severity: Severity
    text: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.text} [{self.code}]"


def finding(code: str, text: str, severity: Severity | None = None) -> Finding:
    """Return a finding with the severity of its code, unless another is given."""
    return Finding(code, severity or CODES[code].severity, text)


@dataclass(frozen=True)
class Checks:
    """The findings of checks, the most severe first; empty without findings.

    Parameters
    ----------
    findings : tuple of Finding, default ()
        The findings.
    ignored : tuple of str, default ()
        Codes that were ignored.

    See Also
    --------
    adacsl.check : Returns it.

    Examples
    --------
    >>> from adacsl.datasets import Checks
    >>> from adacsl.datasets.findings import finding
    >>> constant = finding("constant-column", "column 'a' is always 1: exclude it")
    >>> result = Checks.of([constant])
    >>> print(result)
    info: column 'a' is always 1: exclude it [constant-column]
    >>> result.without(["constant-column"])
    Checks(findings=(), ignored=('constant-column',))
    """

    findings: tuple[Finding, ...] = ()
    ignored: tuple[str, ...] = ()

    @classmethod
    def of(cls, findings: Iterable[Finding], ignore: Iterable[str] = ()) -> Checks:
        """Return findings, the most severe first, without those of ignored codes."""
        codes = known_codes(ignore)
        kept = [result for result in findings if result.code not in codes]
        return cls(tuple(sorted(kept, key=lambda result: SEVERITIES.index(result.severity))), codes)

    @classmethod
    def from_list(cls, documents: Iterable[dict[str, Any]]) -> Checks:
        """Return the findings that :meth:`to_list` wrote."""
        return cls.of(Finding(each["code"], each["severity"], each["text"]) for each in documents)

    def without(self, ignore: Iterable[str]) -> Checks:
        """Return the findings without some codes.

        Parameters
        ----------
        ignore : iterable of str
            The codes.

        Returns
        -------
        Checks
            The other findings.
        """
        return Checks.of(self.findings, (*self.ignored, *ignore))

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __bool__(self) -> bool:
        return bool(self.findings)

    def __str__(self) -> str:
        return "\n".join(map(str, self.findings)) or "no findings"

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the findings, each once."""
        return tuple(dict.fromkeys(result.code for result in self.findings))

    @property
    def has_errors(self) -> bool:
        """Whether there is an error, which makes results worthless until it is repaired."""
        return any(result.severity == "error" for result in self.findings)

    def to_list(self) -> list[dict[str, str]]:
        """Return the findings as JSON values.

        Returns
        -------
        list of dict
            Code, severity, text and page of documentation of each finding.
        """
        return [{**result._asdict(), "page": f"{PAGE}#{result.code}"} for result in self.findings]

    def frame(self) -> pd.DataFrame:
        """Return the findings as a data frame.

        Returns
        -------
        pandas.DataFrame
            One row per finding.
        """
        import pandas as pd  # noqa: PLC0415  codes are known without it

        return pd.DataFrame(self.to_list(), columns=[*Finding._fields, "page"])

    def _repr_html_(self) -> str:
        if not self.findings:
            return f"<p>{self}</p>"
        return html_table([(result.code, result.severity, result.text) for result in self])


def known_codes(ignore: Iterable[str]) -> tuple[str, ...]:
    """Return the codes to ignore, each once; raise if one is unknown.

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
