"""The agent's own tests: which statements of a model's reply are usable. Nothing is run here."""

import ast
import builtins
import re
from collections.abc import Iterator
from itertools import islice, pairwise

from envs.programming.source import names_in, parse, storable, unparse, whole_lines
from envs.programming.tautology import asserted, truth

_ASSERT = re.compile(r"^[ \t>*`.)\d-]*(?=assert\b)", re.M)
_IMPORT = re.compile(r"^[ \t]*((?:import|from)[ ]\w[^\n;]*)", re.M)
_MAX_REPLY = 200_000  # characters of a reply that are looked at
_MAX_STATEMENTS = 100  # asserts that are tried, and imports
_MAX_LINES = 15  # of one assert
_MAX_TEST = 2000  # characters of one assert

_MODULES = (
    *("cmath", "collections", "datetime", "decimal", "fractions", "functools", "heapq", "itertools", "math"),
    *("operator", "re", "statistics", "string"),
)
_UNSAFE = {
    *("__import__", "breakpoint", "compile", "delattr", "eval", "exec", "exit", "getattr", "globals", "help"),
    *("input", "locals", "memoryview", "open", "print", "quit", "setattr", "vars"),
}
_BUILTINS = frozenset(name for name in dir(builtins) if not name.startswith("__")) - _UNSAFE


def parse_tests(reply: str, entry_point: str) -> tuple[str, ...]:
    """The usable tests of a reply, in order, without duplicates.

    A usable test is one `assert` that calls the function under test, can fail, and otherwise names nothing
    but builtins and harmless modules, whose imports come with it. Messages are dropped. Asserts inside test
    functions count if they need nothing from around them.

    Args:
        reply: What the model wrote: code, fenced or not, or text with code in it.
        entry_point: Name of the function under test.
    """
    text = storable(whole_lines(reply, _MAX_REPLY)).replace("\r\n", "\n").replace("\r", "\n")
    imports = dict(_imports(text))
    found = (_test(node, entry_point, imports) for node in _asserts(text))
    return tuple(dict.fromkeys(test for test in found if test))


def _asserts(text: str) -> Iterator[ast.Assert]:
    starts = [match.end() for match in islice(_ASSERT.finditer(text), _MAX_STATEMENTS)]
    for start, end in pairwise([*starts, len(text)]):
        if node := _first_assert(whole_lines(text[start:end], _MAX_TEST)):
            yield node


def _first_assert(text: str) -> ast.Assert | None:
    """The assert that begins a text, on as few lines as are valid Python."""
    lines = text.split("\n", _MAX_LINES)[:_MAX_LINES]
    for count in range(1, len(lines) + 1):
        tree = parse("\n".join(lines[:count]).rstrip("` "))
        if tree and tree.body and isinstance(tree.body[0], ast.Assert):
            return tree.body[0]
    return None


def _imports(text: str) -> Iterator[tuple[str, str]]:
    """Names that imports of harmless modules bind, with a statement that binds each."""
    for module in _MODULES:
        yield module, f"import {module}"
    for match in islice(_IMPORT.finditer(text), _MAX_STATEMENTS):
        tree = parse(match[1].strip())
        for node in tree.body if tree else ():
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            for alias in node.names:
                module = node.module or "" if isinstance(node, ast.ImportFrom) else alias.name
                if module in _MODULES and alias.name != "*":
                    single = (
                        ast.ImportFrom(module, [alias], 0)
                        if isinstance(node, ast.ImportFrom)
                        else ast.Import([alias])
                    )
                    yield alias.asname or alias.name, ast.unparse(single)


def _test(node: ast.Assert, entry_point: str, imports: dict[str, str]) -> str:
    """The test's source; empty where it is of no use."""
    test = asserted(node.test)
    source = unparse(test)
    if not source or len(source) > _MAX_TEST or truth(test) is not None:
        return ""
    parts = list(ast.walk(test))
    calls = {part.func.id for part in parts if isinstance(part, ast.Call) and isinstance(part.func, ast.Name)}
    if entry_point not in calls or any(map(_is_forbidden, parts)):
        return ""
    own = {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    own |= {part.arg for part in parts if isinstance(part, ast.arg)}
    others = set(names_in(test)) - own - {entry_point}
    if entry_point in own or others - _BUILTINS - imports.keys():
        return ""
    needed = sorted({imports[name] for name in others - _BUILTINS if name in imports})
    return "\n".join([*needed, f"assert {source}"])


def _is_forbidden(part: ast.AST) -> bool:
    """Placeholders, private attributes, loops over nothing, and what cannot stand in a test of one line."""
    if isinstance(part, ast.comprehension):
        return truth(part.iter) is False
    if isinstance(part, ast.Constant):
        return part.value is Ellipsis
    if isinstance(part, ast.Attribute):
        return part.attr.startswith("_")
    return isinstance(part, ast.Await | ast.Yield | ast.YieldFrom)
