"""MLflow: an adacsl model as a flavour of its own, logged, loaded and served without pickle."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import adacsl
from adacsl.base.extras import requires

with requires("mlflow"), warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)  # MLflow warns of type hints of its own
    import mlflow.artifacts
    import mlflow.pyfunc
    import pandas as pd
    from mlflow.models import Model, ModelSignature, infer_signature
    from mlflow.types import ParamSchema, ParamSpec

FLAVOR = "adacsl"
FOLDER = "model"
"""The model, as its ``save`` writes it, within MLflow's folder."""
OUTPUTS = ("decisions", "probabilities", "all")
PYTHON_ENVIRONMENT, REQUIREMENTS = "python_env.yaml", "requirements.txt"


def save_model(
    model: Any,
    path: str | Path,
    *,
    signature: Any = None,
    input_example: Any = None,
    pip_requirements: Sequence[str] | None = None,
    metadata: dict[str, Any] | None = None,
    mlflow_model: Any = None,
) -> None:
    """Write a fitted classifier as an MLflow model: its folder of safetensors and JSON, ``MLmodel``, requirements.

    Parameters
    ----------
    model : CostSensitiveClassifier
        A fitted classifier that its ``save`` can write.
    path : path
        A folder that does not exist yet, or is empty.
    signature : ModelSignature, optional
        Of inputs and outputs. Default: inferred from the example, where one is given. The parameter ``output`` is in
        the default only.
    input_example : table, optional
        Some rows, from which the signature is inferred; they are not kept.
    pip_requirements : sequence of str, optional
        Default: adacsl, and the boosters that the model holds, in these versions.
    metadata : dict, optional
        Kept in ``MLmodel``.
    mlflow_model : mlflow.models.Model, optional
        To add the flavour to; :func:`log_model` gives one.

    See Also
    --------
    load_model : Reads it.

    Examples
    --------
    >>> from adacsl.integrations.mlflow import load_model, save_model
    >>> save_model(model, "model_folder", input_example=X[:5])  # doctest: +SKIP
    >>> load_model("model_folder").predict(X)  # doctest: +SKIP
    """
    place = Path(path)
    if place.is_dir() and any(place.iterdir()):
        raise FileExistsError(f"{place} holds other files: give a new folder for the MLflow model")
    place.mkdir(parents=True, exist_ok=True)
    model.save(place / FOLDER)
    about = Model() if mlflow_model is None else mlflow_model
    about.signature = signature or _signature(model, input_example)
    about.metadata = metadata if metadata is not None else about.metadata
    about.add_flavor(FLAVOR, adacsl_version=adacsl.__version__, data=FOLDER)
    mlflow.pyfunc.add_to_model(about, loader_module=__name__, data=FOLDER, python_env=PYTHON_ENVIRONMENT)
    about.save(str(place / "MLmodel"))
    _write_environment(place, _requirements(model) if pip_requirements is None else pip_requirements)


def log_model(model: Any, name: str = "model", **settings: Any) -> Any:
    """Log a fitted classifier to the active MLflow run, or to a new one.

    Parameters
    ----------
    model : CostSensitiveClassifier
        A fitted classifier that its ``save`` can write.
    name : str, default "model"
        Name of the logged model.
    **settings : Any
        Parameters of :func:`save_model`, and of ``mlflow.models.Model.log``: ``registered_model_name``, ``tags``, ...

    Returns
    -------
    mlflow.models.model.ModelInfo
        Description of the logged model.

    See Also
    --------
    load_model : Reads it.

    Examples
    --------
    >>> from adacsl.integrations.mlflow import log_model
    >>> info = log_model(model, input_example=X[:5])  # doctest: +SKIP
    """
    return Model.log(artifact_path=None, name=name, flavor=sys.modules[__name__], model=model, **settings)


def load_model(model_uri: str | Path, dst_path: str | None = None, *, device: str = "auto") -> Any:
    """Return the classifier of an MLflow model, with all its methods.

    ``mlflow.pyfunc.load_model`` returns one that predicts.

    Parameters
    ----------
    model_uri : str
        Such as ``models:/name/1``, ``runs:/<id>/model`` or a folder.
    dst_path : str, optional
        An existing folder to download to.
    device : str, default "auto"
        Where to predict.

    Returns
    -------
    CostSensitiveClassifier
        The fitted classifier.

    See Also
    --------
    save_model : Writes it.

    Examples
    --------
    >>> from adacsl.integrations.mlflow import load_model, save_model
    >>> save_model(model, "model_folder", input_example=X[:5])  # doctest: +SKIP
    >>> load_model("model_folder").predict(X)  # doctest: +SKIP
    """
    folder = Path(mlflow.artifacts.download_artifacts(artifact_uri=str(model_uri), dst_path=dst_path))
    return adacsl.load(folder / Model.load(str(folder)).flavors[FLAVOR]["data"], device=device)


class Predictor:
    """The model as MLflow's ``pyfunc`` flavour predicts with it.

    Parameters
    ----------
    model : CostSensitiveClassifier
        The fitted classifier, as it was logged.

    Examples
    --------
    >>> predictor = mlflow.pyfunc.load_model("model_folder")  # doctest: +SKIP
    >>> predictor.predict(X, params={"output": "probabilities"})  # doctest: +SKIP
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    def predict(self, data: Any, params: dict[str, Any] | None = None) -> Any:
        """Return decisions or probabilities.

        Parameters
        ----------
        data : table
            The samples.
        params : dict, optional
            ``{"output": "decisions"}`` (the default): labels or other actions; ``"probabilities"``: a column for each
            class; ``"all"``: a table of decision, probability (of each class, where there are more than two) and
            expected cost.

        Returns
        -------
        array or table
            One row per sample.
        """
        output = (params or {}).get("output", OUTPUTS[0])
        if output not in OUTPUTS:
            raise ValueError(f"output must be one of {', '.join(OUTPUTS)}, got {output!r}")
        unnamed = isinstance(data, pd.DataFrame) and not hasattr(self.model, "feature_names_in_")
        rows = data.to_numpy() if unnamed else data
        if output == "probabilities":
            return pd.DataFrame(self.model.predict_proba(rows), columns=list(map(str, self.model.classes_)))
        result = self.model.decisions(rows)
        return result.labels if output == "decisions" else _table(result, self.model.classes_)


def _table(result: Any, classes: Any) -> pd.DataFrame:
    proba = result.probabilities
    names = ["probability"] if proba.ndim == 1 else [f"probability_{label}" for label in classes]
    named = dict(zip(names, np.atleast_2d(proba.T), strict=True))
    return pd.DataFrame({"decision": result.labels, **named, "expected_cost": result.expected})


def _load_pyfunc(path: str) -> Predictor:
    """Return what predicts; MLflow calls this by its name."""
    return Predictor(adacsl.load(path))


def _signature(model: Any, example: Any) -> Any:
    """Return inputs and outputs by an example, and the one parameter."""
    if example is None:
        return ModelSignature(params=ParamSchema([ParamSpec("output", "string", OUTPUTS[0])]))
    result = np.asarray(Predictor(model).predict(example))
    return infer_signature(example, result, params={"output": OUTPUTS[0]})


def _requirements(model: Any) -> list[str]:
    """Return what has to be installed where the model is loaded."""
    parts = getattr(model.model_, "models", [model.model_])
    libraries = sorted({part.library for part in parts if getattr(part, "library", None)})
    packages = [*libraries, "scikit-learn", "torch"]
    return [f"adacsl[train]=={adacsl.__version__}", *(f"{name}=={_version(name)}" for name in packages)]


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package).partition("+")[0]  # +cpu is no version of an index
    except importlib.metadata.PackageNotFoundError:  # xgboost-cpu is the same package
        return importlib.metadata.version(f"{package}-cpu")


def _write_environment(place: Path, requirements: Sequence[str]) -> None:
    environment = {"python": platform.python_version(), "dependencies": [f"-r {REQUIREMENTS}"]}
    (place / PYTHON_ENVIRONMENT).write_text(json.dumps(environment) + "\n")  # JSON is YAML
    (place / REQUIREMENTS).write_text("\n".join(requirements) + "\n")


__all__ = ["Predictor", "load_model", "log_model", "save_model"]
