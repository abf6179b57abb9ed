"""Calls of classes that become one: what was several constructors is ``AdaCSLClassifier`` with a learner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import libcst as cst

BOOSTING = ("engine", "rounds", "lr", "patience", "every", "params", "trainer")
FITTING = ("training", "rounds", "patience", "every", "weight_name")


def last_name(node: cst.BaseExpression) -> str:
    """Return the last part of what is called."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        return node.attr.value
    return last_name(node.func) if isinstance(node, cst.Call) else ""


def kw(name: str, value: cst.BaseExpression) -> cst.Arg:
    """Return an argument by keyword."""
    none = cst.SimpleWhitespace("")
    return cst.Arg(value, cst.Name(name), equal=cst.AssignEqual(none, none))


def call(name: str, args: list[cst.Arg]) -> cst.Call:
    """Return a call on one line; a formatter breaks what is too long."""
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    args = [a.with_changes(whitespace_after_arg=cst.SimpleWhitespace("")) for a in args]
    return cst.Call(cst.Name(name), [a.with_changes(comma=comma) for a in args[:-1]] + [
        a.with_changes(comma=cst.MaybeSentinel.DEFAULT) for a in args[-1:]
    ])  # fmt: skip


def plain_dict(node: cst.BaseExpression) -> list[cst.Arg] | None:
    """Return the items of a literal dict with words as keys, as arguments."""
    if isinstance(node, cst.Call) and last_name(node.func) == "dict" and all(a.keyword is not None for a in node.args):
        return list(node.args)
    if not isinstance(node, cst.Dict):
        return None
    args = []
    for item in node.elements:
        if isinstance(item, cst.StarredDictElement):
            args.append(cst.Arg(item.value, star="**"))
            continue
        key = item.key if isinstance(item, cst.DictElement) else None
        if not isinstance(key, cst.SimpleString) or not key.raw_value.isidentifier():
            return None
        args.append(kw(key.raw_value, item.value))
    return args


def learner_of(kind: str, given: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return a learner from what was given as its settings; None for nothing."""
    if isinstance(given, cst.Name) and given.value == "None":
        return None
    if isinstance(given, cst.Call) and last_name(given.func) in (kind, "Net", "NeuralLearner"):
        return given
    args = plain_dict(given)
    return call(kind, [cst.Arg(given, star="**")] if args is None else args)


class Calls(cst.CSTTransformer):
    """Rewrites constructors; adds the imports they need."""

    def __init__(self, path: str, given: Mapping[str, Any]) -> None:
        super().__init__()
        self.path, self.given = path, given["calls"]
        self.needed: set[tuple[str, str]] = set()
        self.tested = path.startswith(("tests/", "benchmarks/", "src/", "paper/"))
        self.names: set[str] = set()

    def visit_Module(self, node: cst.Module) -> None:
        code = node.code
        self.whole = not any(word in code for word in ("AdaptiveCostClassifier", "AdaCSLBoostingClassifier", "net=", "trainer="))
        self.shown = path_is_text(self.path)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        if self.whole or self.path.endswith("estimators/adacsl.py"):
            return updated_node
        name = last_name(original_node.func)
        if name == "AdaCSLBoostingClassifier":
            return self.boosting(updated_node)
        if name == "AdaptiveCostClassifier":
            return self.fitting(updated_node)
        if name in ("PortfolioClassifier", "Portfolio") and not self.path.startswith("src/"):
            return placed(updated_node)
        if name in self.given["net_callees"]:
            return self.net(updated_node)
        return updated_node

    def net(self, node: cst.Call) -> cst.Call:
        """Write ``net=`` as ``learner=``."""
        args = []
        for arg in node.args:
            if arg.keyword is None or arg.keyword.value != "net":
                args.append(arg)
                continue
            learner = learner_of("NeuralLearner", arg.value)
            if learner is not None:
                self.need("NeuralLearner")
                args.append(arg.with_changes(keyword=cst.Name("learner"), value=learner))
        return node.with_changes(args=_ended(args))

    def boosting(self, node: cst.Call) -> cst.Call:
        """Write a booster as a learner: adapted where a target or controller is given, else plain."""
        if any(arg.star == "**" for arg in node.args):
            self.needed.add(("tests.made", "boosting_classifier"))
            return node.with_changes(func=cst.Name("boosting_classifier"))
        settings = {arg.keyword.value: arg for arg in node.args if arg.keyword is not None}
        own = [_renamed(settings[name], "library" if name == "engine" else name) for name in BOOSTING if name in settings]
        library = settings.get("engine")
        rest = [arg for arg in node.args if arg.keyword is None or arg.keyword.value not in BOOSTING]
        adapted = {"target", "controller"} & set(settings)
        learner: cst.BaseExpression
        if library is not None and len(own) == 1:
            learner = library.value
        elif not own:
            learner = cst.SimpleString('"xgboost"')
        else:
            if library is None:
                own.insert(0, kw("library", cst.SimpleString('"xgboost"')))
            learner = call("BoostingLearner", own)
            self.need("BoostingLearner")
        if adapted:
            extra = [] if "target" in settings else [kw("target", cst.SimpleString('"bayes"'))]
            extra += [] if "decide" in settings else [kw("decide", cst.SimpleString('"bayes"'))]
        else:
            extra = []
        kind = "AdaCSLClassifier" if adapted else "CostSensitiveClassifier"
        if isinstance(node.func, cst.Name):
            self.need(kind)
        return _called(node, kind, _with(rest, kw("learner", learner), extra))

    def fitting(self, node: cst.Call) -> cst.Call:
        """Write an estimator as a learner."""
        if any(arg.star == "**" for arg in node.args):
            self.needed.add(("tests.made", "adapted_estimator"))
            return node.with_changes(func=cst.Name("adapted_estimator"))
        settings = {arg.keyword.value: arg for arg in node.args if arg.keyword is not None}
        own = [settings[name] for name in FITTING if name in settings]
        positional = [arg for arg in node.args if arg.keyword is None]
        estimator = settings["estimator"].value if "estimator" in settings else positional.pop(0).value
        rest = [*positional, *(a for name, a in settings.items() if name not in (*FITTING, "estimator"))]
        learner: cst.BaseExpression = estimator
        if own or (self.tested and not self.shown):
            encode = [kw("encode", cst.Name("False"))] if self.tested and not self.shown else []
            learner = call("SklearnLearner", [cst.Arg(estimator), *own, *encode])
            self.need("SklearnLearner")
        extra = [] if "decide" in settings or self.shown else [kw("decide", cst.SimpleString('"bayes"'))]
        if isinstance(node.func, cst.Name):
            self.need("AdaCSLClassifier")
        return _called(node, "AdaCSLClassifier", _with(rest, kw("learner", learner), extra))

    def need(self, name: str) -> None:
        """Import a name, from where it lives."""
        place = {"NeuralLearner": "adacsl.neural"}.get(name, "adacsl.learners")
        self.needed.add(("adacsl" if name.endswith("Classifier") else place, name))

    def leave_Module(self, original_node: cst.Module, updated_node: cst.Module) -> cst.Module:
        old = {"NeuralLearner": "Net", "BoostingLearner": "Booster", "SklearnLearner": "Model"}
        old |= {"CostSensitiveClassifier": "Method"}
        there = imported(original_node)
        missing = sorted(one for one in self.needed if one[1] not in there and old.get(one[1]) not in there)
        if not missing:
            return updated_node
        lines = [cst.parse_statement(f"from {place} import {name}\n") for place, name in missing]
        body, at = list(updated_node.body), 0
        for number, statement in enumerate(body):
            small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
            if isinstance(small, cst.Import | cst.ImportFrom):
                at = number + 1
                if isinstance(small, cst.ImportFrom) and small.module is not None and last_name(small.module) == "adacsl":
                    break
            elif at and not isinstance(small, cst.Import | cst.ImportFrom):
                break
            elif number == 0 and isinstance(small, cst.Expr):
                at = 1
        return updated_node.with_changes(body=[*body[:at], *lines, *body[at:]])


def placed(node: cst.Call) -> cst.Call:
    """Write ``trainer=`` of an ensemble as settings of its own."""
    new = {"engine": "backend", "workers": "n_jobs"}
    args: list[cst.Arg] = []
    for arg in node.args:
        if arg.keyword is None or arg.keyword.value != "trainer":
            args.append(arg)
            continue
        settings = plain_dict(arg.value)
        if settings is None:
            given = code_of(arg.value)
            args += [] if given == "None" else [cst.Arg(cst.parse_expression(f"({given} or {{}})"), star="**")]
        else:
            args += [kw(new.get(a.keyword.value, a.keyword.value), a.value) if a.keyword else a for a in settings]
    if len(args) == len(node.args):
        return node.with_changes(args=args)
    return call(last_name(node.func), args).with_changes(func=node.func)


def code_of(node: cst.CSTNode) -> str:
    """Return the source of a node."""
    return cst.Module([]).code_for_node(node)


def imported(module: cst.Module) -> set[str]:
    """Return what a module imports from the package at its top."""
    lines = [s.body[0] for s in module.body if isinstance(s, cst.SimpleStatementLine)]
    some = [n for n in lines if isinstance(n, cst.ImportFrom) and not isinstance(n.names, cst.ImportStar)]
    ours = [n for n in some if n.module is not None and code_of(n.module).startswith("adacsl")]
    return {code_of(a.name) for n in ours for a in n.names}  # type: ignore[union-attr]


def path_is_text(path: str) -> bool:
    """Tell whether code is shown to readers: then it is short."""
    return path.startswith(("docs/", "examples/", "README"))


def _called(node: cst.Call, name: str, args: list[cst.Arg]) -> cst.Call:
    made = call(name, args)
    if isinstance(node.func, cst.Attribute) and isinstance(node.func.value, cst.Name):  # library.AdaptiveCostClassifier
        return made.with_changes(func=node.func.with_changes(attr=cst.Name(name)))
    return made


def _renamed(arg: cst.Arg, name: str) -> cst.Arg:
    return kw(name, arg.value)


def _ended(args: list[cst.Arg]) -> list[cst.Arg]:
    return args


def _with(rest: list[cst.Arg], learner: cst.Arg, extra: list[cst.Arg]) -> list[cst.Arg]:
    """Put the learner behind the costs."""
    first = [a for a in rest if a.keyword is None or a.keyword.value == "costs"]
    others = [a for a in rest if a not in first]
    return [*first, learner, *others, *extra]
