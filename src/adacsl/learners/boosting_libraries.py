"""XGBoost, LightGBM and CatBoost by name."""

from __future__ import annotations

import importlib
from typing import Any

ENGINES = ("xgboost", "lightgbm", "catboost")


def load_engine(name: str) -> Any:
    """Return a boosting library; raise with the command to install it."""
    if name not in ENGINES:  # a saved model names its own
        raise ValueError(f"there is no engine {str(name)[:40]!r}: {', '.join(ENGINES)} are known")
    return importlib.import_module(f"adacsl.integrations.{name}")
