"""A programming problem, and the source of the program that answers it."""

import ast
from dataclasses import dataclass

from envs.base import DataError
from envs.data import Record
from envs.programming.source import defines, find_function, first_line, lines_of, parse


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem in HumanEval's form.

    Attributes:
        id: The data set's own id.
        prompt: Imports, helper functions and the head of the function to write, with its docstring.
        entry_point: The function's name.
        test: Source that defines `check(candidate)`. Hidden: for the scorer alone.
        given: The part of the prompt before the function: what a program may rely on.
    """

    id: str
    prompt: str
    entry_point: str
    test: str
    given: str

    @classmethod
    def from_record(cls, record: Record) -> "Problem":
        """The problem in a record. Raises DataError."""
        prompt, entry_point = record.text("prompt"), record.text("entry_point")
        given = _given(prompt, entry_point)
        if given is None:
            raise DataError(f"{record.place}: field 'prompt' must define {entry_point!r}, as valid Python")
        test = record.text("test")
        if not _has_check(test):
            raise DataError(f"{record.place}: field 'test' must define check(candidate), as valid Python")
        return cls(record.text("task_id"), prompt, entry_point, test, given)

    def program(self, code: str) -> str:
        """The whole program for a solution that is either a full function or only its body."""
        if not defines(code, self.entry_point) and defines(self.prompt + code, self.entry_point):
            return self.prompt + code
        future, rest = _split_future(code)
        return f"{future}{self.given}\n{rest}"

    def hidden_test(self) -> str:
        """The hidden test as one program. Its helpers are the prompt's, so that no solution replaces them."""
        return f"{self.given}\n{self.test}\ncheck({self.entry_point})\n"


def _given(prompt: str, entry_point: str) -> str | None:
    tree = parse(prompt) or parse(prompt + "\n    pass\n")
    function = tree and find_function(tree, entry_point)
    if not function:
        return None
    return "".join(lines_of(prompt)[: first_line(function) - 1])


def _has_check(test: str) -> bool:
    tree = parse(test, limit=None)
    check = tree and find_function(tree, "check")
    return isinstance(check, ast.FunctionDef) and bool(check.args.posonlyargs + check.args.args)


def _split_future(code: str) -> tuple[str, str]:
    """The `from __future__` imports, which must come first in a program, and everything else."""
    tree = parse(code)
    lines = lines_of(code)
    future = []
    for node in tree.body if tree else ():
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            future.append(ast.unparse(node) + "\n")
            lines[node.lineno - 1 : node.end_lineno] = ["\n"] * (1 + (node.end_lineno or 0) - node.lineno)
    return "".join(future), "".join(lines)
