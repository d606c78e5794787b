"""Reading Python source without running it."""

import ast
import io
import warnings
from collections.abc import Iterator

MAX_CODE = 1 << 15
"""Longest source that is looked at, in characters. Answers to the benchmarks' problems are far shorter."""

_MAX_CUTS = 20

Function = ast.FunctionDef | ast.AsyncFunctionDef


def compile_error(code: str) -> SyntaxError | None:
    """What is wrong with the source; None where it is valid Python."""
    if len(code) > MAX_CODE:
        return SyntaxError(f"the code is longer than {MAX_CODE} characters")
    checked = _compile(code, 0)
    return checked if isinstance(checked, SyntaxError) else None


def parse(code: str, limit: int | None = MAX_CODE) -> ast.Module | None:
    """The syntax tree, or None where the source is not valid Python, or longer than a limit."""
    too_long = limit is not None and len(code) > limit
    if too_long or isinstance(_compile(code, 0), SyntaxError):
        return None
    tree = _compile(code, ast.PyCF_ONLY_AST)
    return tree if isinstance(tree, ast.Module) else None


def _compile(code: str, flags: int) -> object:
    """What the compiler makes of the source, or what it says against it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a model's invalid escapes are no concern of ours
            return compile(code, "<solution>", "exec", flags, dont_inherit=True)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        return SyntaxError(storable(str(error)) or "the code is nested too deeply")


def unparse(node: ast.AST) -> str:
    """Source for a tree; empty where it is nested too deeply, or holds a number with too many digits."""
    try:
        return ast.unparse(node)
    except (RecursionError, ValueError):
        return ""


def storable(text: str) -> str:
    """The text with lone surrogates, which no file can hold, as the escapes that stand for them."""
    return text.encode("utf-8", "backslashreplace").decode()


def lines_of(code: str) -> list[str]:
    """The lines as the compiler counts them, with their ends. str.splitlines knows more kinds of ends."""
    return io.StringIO(code, newline=None).readlines()


def whole_lines(text: str, limit: int) -> str:
    """The start of a text up to so many characters, cut between lines: half a line may say something else."""
    return text if len(text) <= limit else text[:limit].rpartition("\n")[0]


def statement_source(code: str, node: ast.stmt) -> str:
    """The lines on which a statement stands, decorators included."""
    return "".join(lines_of(code)[first_line(node) - 1 : node.end_lineno]).rstrip("\n")


def valid_start(code: str) -> tuple[str, str]:
    """The start that is valid Python, found by cutting at each line that the compiler names, and the rest."""
    head = whole_lines(code, MAX_CODE)
    lines = lines_of(head)
    end = len(lines)
    for _ in range(_MAX_CUTS):
        error = compile_error("".join(lines[:end]))
        if error is None:
            return "".join(lines[:end]), "".join(lines[end:]) + code[len(head) :]
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
