"""Checks before and after: what looks wrong about data and fitted models, each thing with a code of its own."""

from adacsl.datasets.checks.codes import CODES, Checks, Finding, finding

__all__ = ["CODES", "Checks", "Finding", "finding"]
