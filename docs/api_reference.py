"""The objects of the API reference: which names docs/api/index.md lists, and which members of a class are public."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

INDEX = Path(__file__).with_name("api") / "index.md"
TABLE = re.compile(r"^\.\. autosummary::\n(?:   :.*\n)*\n((?:   \S+\n)+)", re.MULTILINE)
FRAMEWORKS = (
    "torch",
    "torchmetrics",
    "lightning",
    "pytorch_lightning",
    "keras",
    "xgboost",
    "skorch",
    "transformers",
    "mlflow",
)
"""Methods of their classes that ours override are hooks, which the framework calls."""
INTERNAL = {
    "AdaCSLCallback": "after_iteration calc_ders_multi calc_ders_range evaluate get_final_error is_max_optimal",
    "AdaCSLClassifier": "make_learner",
    "AdaCSLController": "at_one_threshold",
    "AdaptiveLoss": "samples",
    "Batch": "counted given joined rows size squares",
    "BoostingLearner": "adapts check chosen_library load_library",
    "Checks": "from_list of",
    "Comparison": "missing_of report_data",
    "Constraints": "allowed certified certified_segments grid most rate refuse within_segments",
    "CostHistogram": "edges filled summed",
    "CostMatrix": "checked clipped deciding hidden learns made models paid without_samples",
    "CostModel": "bound columns forgotten hidden learned learns of rows",
    "CostSensitiveClassifier": "check_settings encodes make_learner",
    "EnsembleClassifier": "learner make_learner",
    "Evaluation": "binary",
    "Feedback": "begin class_weights cost_of derivatives look row_weights start",
    "LDAMLoss": "adjusted",
    "MonitoringReport": "by_labels enough tolerance_text",
    "MemberNet": "draw_noise",
    "NeuralLearner": "adapts changed check patience_for scored_at_once settings",
    "Protocol": "describe_windows inner_validation numbers prepare rows together",
    "Request": "extra time_column",
    "SklearnLearner": "adapts check encodes fresh kind_of_training",
    "Store": "fail identity load origins read_plan read_segments read_split scan seeds write write_plan write_segments"
    " write_split",
    "StreamedScores": "samples",
    "TableEncoder": "raw_columns raw_numbers rules sources",
    "Threshold": "of",
    "_CountsLoss": "adjusted",
}
"""Members by class that other modules of the package call, and users do not."""


def listed_names() -> list[str]:
    """Return the dotted names of the objects that have a page."""
    tables: list[str] = TABLE.findall(INDEX.read_text(encoding="utf-8"))
    return [name for table in tables for name in table.split()]


def listed_constants() -> list[str]:
    """Return the dotted names of the constants, which are described on the index itself."""
    return re.findall(r"^\.\. py:data:: (\S+)$", INDEX.read_text(encoding="utf-8"), re.MULTILINE)


def find_object(name: str) -> Any:
    """Return the object of a dotted name."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def is_function(member: Any) -> bool:
    """Tell whether a class attribute, as it stands in the class, is a method of any kind."""
    return inspect.isfunction(member) or isinstance(member, classmethod | staticmethod) or hasattr(member, "fn")


def public_members(kind: type) -> dict[str, Any]:
    """Return what adacsl itself defines on a class: methods and properties, base classes first."""
    hooks = {
        name
        for base in kind.__mro__
        if base.__module__.partition(".")[0] in FRAMEWORKS
        for name in vars(base)
        if name != "forward"
    }
    result: dict[str, Any] = {}
    for owner in reversed(kind.__mro__):
        if owner.__module__.startswith("adacsl."):
            result |= {
                name: member
                for name, member in vars(owner).items()
                if not name.startswith("_")
                and name not in hooks.union(INTERNAL.get(owner.__name__, "").split())
                and (is_function(member) or isinstance(member, property | functools.cached_property))
            }
    return result


def methods_of(name: str) -> list[str]:
    """Return the public methods of a class, in the order of the source."""
    return [key for key, member in public_members(find_object(name)).items() if is_function(member)]


def properties_of(name: str) -> list[str]:
    """Return the public properties of a class that its docstring does not list, in the order of the source."""
    kind = find_object(name)
    listed = re.findall(r"^\w+(?:, \w+)*(?= : )", inspect.getdoc(kind) or "", re.MULTILINE)
    known = {each for names in listed for each in names.split(", ")}
    return [key for key, member in public_members(kind).items() if not is_function(member) and key not in known]


def pages() -> dict[str, dict[str, list[str]]]:
    """Return the methods and the properties of every listed class, for the templates."""
    classes = [name for name in listed_names() if inspect.isclass(find_object(name))]
    return {name: {"methods": methods_of(name), "properties": properties_of(name)} for name in classes}
