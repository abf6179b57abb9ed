"""XGBoost, LightGBM and CatBoost by name."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterable
from typing import Any

LIBRARIES = ("xgboost", "lightgbm", "catboost")


def load_library(name: str) -> Any:
    """Return the integration of a boosting library; raise with the command to install it."""
    if name not in LIBRARIES:  # a saved model names its own
        raise ValueError(f"there is no boosting library {str(name)[:40]!r}: {', '.join(LIBRARIES)} are known")
    return importlib.import_module(f"adacsl.integrations.{name}")


def installed_library() -> str | None:
    """Return the first boosting library that is installed."""
    return next((name for name in LIBRARIES if importlib.util.find_spec(name)), None)


def load_libraries(methods: Iterable[Any]) -> None:
    """Load what boosters among these need: a limit of threads does not hold for libraries that are loaded under it."""
    for method in methods:
        learner = getattr(method, "learner", method)
        name = getattr(learner, "chosen_library", getattr(learner, "library", None))
        if name in LIBRARIES:
            with contextlib.suppress(ImportError):  # raised where it is fitted
                load_library(name)
