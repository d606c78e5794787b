"""Which assertions hold by their form, whatever the function under test does. Nothing is run here."""

import ast

from envs.programming.source import unparse

_REFLEXIVE = ast.Eq | ast.Is | ast.LtE | ast.GtE  # != is missing: it is how one asks for NaN


def asserted(test: ast.expr) -> ast.expr:
    """What an assertion is about: of `assert (test, "message")`, which always holds, the test."""
    while isinstance(test, ast.Tuple) and test.elts:
        test = test.elts[0]
    return test


def truth(test: ast.expr) -> bool | None:
    """The truth value that an expression has by its form; None where that depends on what it computes."""
    match test:
        case ast.Constant(value=value):
            return bool(value)
        case ast.Lambda() | ast.GeneratorExp():
            return True
        case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
            return _is_filled(items)
        case ast.Dict(keys=keys):
            return _is_filled(keys)
        case ast.JoinedStr(values=parts):
            return _either([truth(part) for part in parts]) or None
        case ast.NamedExpr(value=value):
            return truth(value)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _negated(truth(operand))
        case ast.BoolOp(op=ast.Or(), values=values):
            return _either([truth(value) for value in values])
        case ast.BoolOp(values=values):
            return _negated(_either([_negated(truth(value)) for value in values]))
        case ast.IfExp(test=condition, body=body, orelse=orelse):
            chosen = truth(condition)
            branches = {truth(body), truth(orelse)} if chosen is None else {truth(body if chosen else orelse)}
            return branches.pop() if len(branches) == 1 else None
        case ast.Compare():
            return True if _compares_with_itself(test) else None
    return None


def _is_filled(items: list[ast.expr] | list[ast.expr | None]) -> bool | None:
    """Whether a display has items, of which None and starred ones may stand for none."""
    certain = [item for item in items if item is not None and not isinstance(item, ast.Starred)]
    return bool(certain) if certain or not items else None


def _either(truths: list[bool | None]) -> bool | None:
    return True if True in truths else None if None in truths else False


def _negated(value: bool | None) -> bool | None:
    return None if value is None else not value


def _compares_with_itself(test: ast.Compare) -> bool:
    sides = {unparse(side) for side in (test.left, *test.comparators)}
    return len(sides) == 1 and all(isinstance(op, _REFLEXIVE) for op in test.ops)
