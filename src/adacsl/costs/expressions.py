"""Costs as expressions over columns, parsed by their own grammar and never executed."""

from __future__ import annotations

import ast
import functools
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import as_host

LONGEST = 1000
"""Characters of an expression."""
DEEPEST = 100
"""Levels of parentheses, signs and operators inside one another."""
QUOTED = re.compile(r"`((?:[^`]|``)+)`")
BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: np.divide, ast.Pow: np.power,
}  # fmt: skip
UNARY: dict[type, Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos}
COMPARED: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}  # fmt: skip
FUNCTIONS: dict[str, tuple[Callable[..., Any], int, int]] = {
    "where": (np.where, 3, 3),
    "min": (lambda *values: functools.reduce(np.minimum, values), 2, 99),
    "max": (lambda *values: functools.reduce(np.maximum, values), 2, 99),
    "abs": (np.abs, 1, 1),
    "clip": (np.clip, 3, 3),
    "log": (np.log, 1, 1),
    "sqrt": (np.sqrt, 1, 1),
    "exp": (np.exp, 1, 1),
}
"""What may be called, and with how many values."""
HELP = "numbers, columns, + - * / **, where(amount > 100, a, b), min, max, abs, clip(x, low, high), log, sqrt, exp"


class Expression:
    """A cost as a text over the columns of a table: ``"amount"``, ``"0.8 * amount + 12"``.

    Known are numbers, names of columns (those with other characters than letters, digits and ``_`` in backticks, a
    backtick of a name doubled), ``+ - * / **``, parentheses, ``min``, ``max``, ``abs``, ``clip(x, low, high)``,
    ``log``, ``sqrt``, ``exp`` and ``where(condition, a, b)`` with a comparison as its condition. The text is parsed,
    never executed.

    Examples
    --------
    >>> cost = Expression("where(amount > 100, 0.8 * amount, 20)")
    >>> cost.columns
    ('amount',)
    >>> cost.of({"amount": [50.0, 200.0]}).tolist()
    [20.0, 160.0]
    """

    __slots__ = ("_names", "_tree", "columns", "text")
    kind = "expression"

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise TypeError(f"an expression is a text such as '0.8 * amount + 12', got {text!r}")
        self.text = text.strip()
        # a name alone is a column, be it a word that Python keeps for itself
        self._names = {"name": self.text} if self.text.isidentifier() else {}
        self._tree = ast.Name("name") if self._names else self._parse()
        self.columns: tuple[str, ...] = tuple(dict.fromkeys(self._columns(self._tree)))

    def of(self, table: Any, *, finite: bool = True) -> NDArray[np.float64]:
        """Return the cost of each row of a table (pandas, polars, pyarrow) or of a mapping of arrays.

        ``finite=False`` lets missing values pass, as NaN.
        """
        values = {name: read_column(table, name) for name in self.columns}
        lengths = {name: len(column) for name, column in values.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the columns of {self.text!r} must be equally long, got {lengths}")
        with np.errstate(all="ignore"):
            result = np.asarray(self._value(self._tree, values), dtype=np.float64)
        result = np.array(np.broadcast_to(result, next(iter(lengths.values()), ())))
        if finite:
            self._check_finite(result, values)
        return result

    def to_dict(self) -> dict[str, str]:
        """Return a JSON-ready description."""
        return {"kind": self.kind, "text": self.text}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and other.text == self.text

    def __hash__(self) -> int:
        return hash((self.kind, self.text))

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Expression, (self.text,)

    # reading the text

    def _parse(self) -> ast.expr:
        if len(self.text) > LONGEST:
            raise ValueError(f"an expression has at most {LONGEST} characters, got {len(self.text)}")
        try:
            tree = ast.parse(self._without_quotes(), mode="eval").body
            self._check(tree, DEEPEST)
        except (RecursionError, MemoryError):
            raise ValueError(f"the expression {self.text[:40]!r}... is nested too deeply") from None
        except SyntaxError as error:
            place = f" at character {error.offset}" if error.offset else ""
            raise ValueError(
                f"the expression {self.text!r} cannot be read{place}; a column with such a name goes in backticks: "
                f"`{self.text.strip('`')}`. Known are {HELP}"
            ) from None
        return tree

    def _without_quotes(self) -> str:
        """Return the text with one strange letter, and blanks, for each name in backticks: places stay as they are."""
        if not self.text or "\0" in self.text or "\n" in self.text:
            raise SyntaxError("empty, or more than one line")
        free = (chr(code) for code in range(0x4E00, 0x9FA5) if chr(code) not in self.text)

        def stand_in(result: re.Match[str]) -> str:
            letter = next(free)
            self._names[letter] = result[1].replace("``", "`")
            return letter.ljust(len(result[0]))

        return QUOTED.sub(stand_in, self.text)

    def _check(self, node: ast.AST, deeper: int) -> None:
        """Raise at the first part that is no arithmetic."""
        if deeper == 0:
            raise RecursionError
        if isinstance(node, ast.Call):
            self._check_call(node, deeper)
        elif isinstance(node, ast.BinOp) and type(node.op) in BINARY:
            self._check(node.left, deeper - 1)
            self._check(node.right, deeper - 1)
        elif isinstance(node, ast.UnaryOp) and type(node.op) in UNARY:
            self._check(node.operand, deeper - 1)
        elif not isinstance(node, ast.Name) and not _is_number(node):
            self._refuse(node)

    def _check_call(self, node: ast.Call, deeper: int) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in FUNCTIONS or node.keywords:
            self._refuse(node)
        _, least, most = FUNCTIONS[name]
        if not least <= len(node.args) <= most:
            wanted = f"{least}" if least == most else f"at least {least}"
            raise ValueError(
                f"{name} takes {wanted} values, got {len(node.args)}: {self._shown(node)!r} in the expression "
                f"{self.text!r}"
            )
        parts = list(node.args)
        if name == "where":
            condition = parts.pop(0)
            if not isinstance(condition, ast.Compare) or {type(op) for op in condition.ops} - set(COMPARED):
                raise ValueError(
                    f"where(condition, a, b) begins with a comparison such as amount > 100, got "
                    f"{self._shown(condition)!r} in the expression {self.text!r}"
                )
            parts += [condition.left, *condition.comparators]
        for part in parts:
            self._check(part, deeper - 1)

    def _refuse(self, node: ast.AST) -> None:
        raise ValueError(f"{self._shown(node)!r} has no place in the expression {self.text!r}: known are {HELP}")

    def _shown(self, node: ast.AST) -> str:
        shown = ast.unparse(node)
        for letter, name in self._names.items():
            shown = shown.replace(letter, f"`{name}`")
        return shown

    def _columns(self, node: ast.AST) -> Iterator[str]:
        """Yield the columns in the order of the text."""
        if isinstance(node, ast.Name):
            yield self._names.get(node.id, node.id)
        for child in ast.iter_child_nodes(node):
            if not (isinstance(node, ast.Call) and child is node.func):
                yield from self._columns(child)

    # computing

    def _value(self, node: Any, values: Mapping[str, NDArray[np.float64]]) -> Any:
        if isinstance(node, ast.Name):
            return values[self._names.get(node.id, node.id)]
        if isinstance(node, ast.Constant):
            return np.float64(node.value)  # type: ignore[arg-type]  # _check has seen a number
        parts = functools.partial(self._value, values=values)
        if isinstance(node, ast.UnaryOp):
            return UNARY[type(node.op)](parts(node.operand))
        if isinstance(node, ast.BinOp):
            return BINARY[type(node.op)](parts(node.left), parts(node.right))
        if isinstance(node, ast.Compare):
            sides = [parts(side) for side in (node.left, *node.comparators)]
            pairs = zip(node.ops, sides, sides[1:], strict=False)
            return functools.reduce(operator.and_, (COMPARED[type(op)](a, b) for op, a, b in pairs))
        return FUNCTIONS[node.func.id][0](*map(parts, node.args))

    def _check_finite(self, result: NDArray[np.float64], values: Mapping[str, NDArray[np.float64]]) -> None:
        bad = np.atleast_1d(~np.isfinite(result))
        if not bad.any():
            return
        first, cost = int(bad.argmax()), np.atleast_1d(result)
        there = ", ".join(f"{name} = {column[first]:g}" for name, column in values.items() if name != self.text)
        raise ValueError(
            f"the cost {self.text!r} must be a finite number in every row, got {cost[first]:g} in row {first + 1}"
            f"{f' ({there})' if there else ''}, {int(bad.sum())} such row{'s' if bad.sum() > 1 else ''}: repair these "
            "rows or remove them"
        )


def _is_number(node: ast.AST) -> bool:
    value = node.value if isinstance(node, ast.Constant) else None
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


# columns of any table


def read_column(table: Any, name: str) -> NDArray[np.float64]:
    """Return a column of a table (pandas, polars, pyarrow) or mapping as numbers, missing ones as NaN."""
    known = column_names(table)
    if name not in known:
        near = ", ".join(map(repr, known[:8])) + (", ..." if len(known) > 8 else "")
        raise ValueError(
            f"the costs need the column {name!r}, which is not there: there are {near or 'none'}; names with other "
            "characters than letters and digits go in backticks"
        )
    column = table[name]
    gone = np.asarray(column.isna()) if hasattr(column, "isna") else None
    values: NDArray[Any] = as_host(column)
    if values.ndim != 1:
        raise ValueError(f"column {name!r} must hold one cost for each row, got shape {values.shape}")
    if values.dtype.kind in "fiub":
        return values.astype(np.float64)
    if values.dtype.kind in "OUST":
        values = values.astype(object)
        if gone is not None:
            values[gone] = None
        try:
            return values.astype(np.float64)  # of decimals, and of digits read from a file
        except (TypeError, ValueError):
            pass
    first = next((i for i, value in enumerate(values.tolist()) if not _reads_as_number(value)), 0)
    raise ValueError(
        f"column {name!r} must hold numbers to be a cost, got {values.tolist()[first]!r} in row {first + 1}"
    )


def column_names(table: Any) -> list[str]:
    """Return the names of the columns of a table or mapping."""
    if isinstance(table, Mapping):
        return list(table)
    names = getattr(table, "column_names", getattr(table, "columns", None))
    if names is None:
        raise ValueError(
            "costs that depend on columns need a table whose columns have names (pandas, polars, pyarrow or a mapping "
            f"of arrays), got {type(table).__name__}; or give the costs of each row as an array"
        )
    return list(names)


def _reads_as_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return value is None
    return True
