"""Limits as expressions of figures: ``1.5 * measured.average_w if measured.average_w <= 25 else 37.5``.

Names are ``declared.FIELD``, ``parameter.NAME`` and ``measured.NAME``. Operators are ``+ - * /``, comparisons, ``and``, ``or``, ``not``,
``A if CONDITION else B``, ``min`` and ``max``. Nothing else is evaluated.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..errors import UsageError
from ..measure.figure import Figure

Names = Mapping[str, Figure]
"""``declared.max_power_w`` and the like, with figures; an absent figure gives its reason."""
PLACES = ("declared", "parameter", "measured")
_ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.LtE: operator.le,
    ast.Lt: operator.lt,
    ast.GtE: operator.ge,
    ast.Gt: operator.gt,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_NODES = (
    *(ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.IfExp, ast.Load),
    *(ast.USub, ast.UAdd, ast.Not, ast.And, ast.Or),
    *_ARITHMETIC,
)
_FUNCTIONS: dict[str, Callable[..., float]] = {"min": min, "max": max}


@dataclass(frozen=True)
class Missing(Exception):
    """A name without a value. ``reason``: why."""

    name: str
    reason: str


@lru_cache(maxsize=1024)
def parse(text: str) -> ast.expr:
    """Return the tree of an expression. Raises UsageError for anything that is no expression of this kind."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UsageError(f"{text!r} is no expression such as 1.5 * declared.max_power_w") from None
    for node in ast.walk(tree):
        _check(node, text)
    return tree


def _check(node: ast.AST, text: str) -> None:
    if isinstance(node, ast.Attribute):
        if not isinstance(node.value, ast.Name) or node.value.id not in PLACES:
            raise UsageError(f"{text!r}: names are {', '.join(f'{place}.NAME' for place in PLACES)}")
    elif isinstance(node, ast.Name):
        if node.id not in PLACES and node.id not in _FUNCTIONS:
            raise UsageError(f"{text!r}: {node.id} is not known; names are {', '.join(f'{place}.NAME' for place in PLACES)}")
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, bool) or not isinstance(node.value, (int, float)):
            raise UsageError(f"{text!r}: {node.value!r} is not a number")
    elif isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name) or node.func.id not in _FUNCTIONS or node.keywords or len(node.args) < 2:
            raise UsageError(f"{text!r}: only min(A, B) and max(A, B) can be called")
    elif not isinstance(node, _NODES):
        raise UsageError(f"{text!r}: {type(node).__name__} is not allowed in an expression")


def names_in(text: str) -> list[str]:
    """Return the names of an expression, each once, in their order."""
    found = [node for node in ast.walk(parse(text)) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
    return list(dict.fromkeys(f"{node.value.id}.{node.attr}" for node in found if isinstance(node.value, ast.Name)))


def evaluate(text: str, names: Names) -> Figure:
    """Return the value of an expression, with the uncertainty of its figures propagated one by one (JCGM 100, 5.1.3).

    Raises :class:`Missing` where a name that counts has no value. The figure has no ``u`` if a figure that counts has none.
    """
    values = {name: figure.value for name, figure in names.items()}
    value = _value(parse(text), values, names)
    squares, lost = 0.0, 0
    for name in names_in(text):
        figure = names.get(name)
        if figure is None or figure.value is None:
            continue
        if figure.u is None:
            return Figure(value, None)
        ends = [_value(parse(text), {**values, name: figure.value + sign * figure.u}, names) for sign in (-1, 1)]
        squares += (max(abs(end - value) for end in ends)) ** 2
        lost += figure.lost
    return Figure(value, math.sqrt(squares), lost=lost)


def _value(node: ast.expr, values: Mapping[str, float | None], names: Names) -> float:
    def of(child: ast.expr) -> float:
        return _value(child, values, names)

    match node:
        case ast.Constant(value=value):
            return float(value)  # type: ignore[arg-type]  # parse() lets numbers alone pass
        case ast.Attribute(value=ast.Name(id=place), attr=attr):
            name = f"{place}.{attr}"
            found = values.get(name)
            if found is None:
                figure = names.get(name)
                default = "is not declared" if place == "declared" else "is not given" if place == "parameter" else "was not measured"
                raise Missing(name, str(figure.conditions.get("absent", default)) if figure is not None else default)
            return found
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -of(operand)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return float(not of(operand))
        case ast.UnaryOp(operand=operand):
            return of(operand)
        case ast.BinOp(left=left, op=op, right=right):
            try:
                return float(_ARITHMETIC[type(op)](of(left), of(right)))
            except ZeroDivisionError:
                raise Missing("the divisor", "is 0") from None
        case ast.BoolOp(op=ast.And(), values=parts):
            return float(all(of(part) for part in parts))
        case ast.BoolOp(values=parts):
            return float(any(of(part) for part in parts))
        case ast.Compare(left=left, ops=ops, comparators=others):
            terms = [of(left), *(of(other) for other in others)]
            return float(all(_ARITHMETIC[type(op)](a, b) for op, a, b in zip(ops, terms[:-1], terms[1:], strict=True)))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return of(body) if of(test) else of(orelse)
        case ast.Call(func=ast.Name(id=function), args=arguments):
            return float(_FUNCTIONS[function](*(of(argument) for argument in arguments)))
    raise UsageError(f"{ast.unparse(node)} cannot be evaluated")
