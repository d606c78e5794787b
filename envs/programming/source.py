"""Reading Python source without running it."""

import ast
import warnings
from collections.abc import Iterator

MAX_CODE = 1 << 16
"""Longest source that is looked at, in characters. Answers to the benchmarks' problems are far shorter."""

_MAX_CUTS = 20

Function = ast.FunctionDef | ast.AsyncFunctionDef


def compile_error(code: str) -> SyntaxError | None:
    """What is wrong with the source; None where it is valid Python."""
    if len(code) > MAX_CODE:
        return SyntaxError(f"the code is longer than {MAX_CODE} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a model's invalid escapes are no concern of ours
            compile(code, "<solution>", "exec", dont_inherit=True)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        return SyntaxError(str(error) or "the code is nested too deeply")
    return None


def parse(code: str) -> ast.Module | None:
    """The syntax tree, or None where the source is not valid Python."""
    if compile_error(code):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(code)


def valid_start(code: str) -> tuple[str, str]:
    """The start that is valid Python, found by cutting at each line that the compiler names, and the rest."""
    lines = code[:MAX_CODE].splitlines(keepends=True)
    end = len(lines)
    for _ in range(_MAX_CUTS):
        error = compile_error("".join(lines[:end]))
        if error is None:
            return "".join(lines[:end]), "".join(lines[end:])
        end = max(min(end, error.lineno or end) - 1, 0)
    return "", code


def find_function(tree: ast.Module, name: str) -> Function | None:
    """The last top-level function of this name: the one that counts when the program runs."""
    for node in reversed(tree.body):
        if isinstance(node, Function) and node.name == name:
            return node
    return None


def defines(code: str, name: str) -> bool:
    """Whether the source is valid Python with a top-level function of this name."""
    tree = parse(code)
    return tree is not None and find_function(tree, name) is not None


def first_line(node: ast.stmt) -> int:
    """The number of a statement's first line, decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def names_in(node: ast.AST) -> Iterator[str]:
    """Every name that occurs in the tree."""
    return (child.id for child in ast.walk(node) if isinstance(child, ast.Name))
