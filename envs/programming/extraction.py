"""Finds the program in a model's reply. Nothing is run here.

A reply may hold several fenced blocks, an unclosed one, tags or none of these, chatter before and after, only
the body of the function, or further turns of a conversation that the model has made up. Every place where
code may be is looked at, best evidence first; the first that defines the function wins.
"""

import ast
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from envs.programming.problem import Problem
from envs.programming.source import (
    compile_error,
    find_function,
    first_line,
    lines_of,
    names_in,
    parse,
    statement_source,
    storable,
    unparse,
    valid_start,
    whole_lines,
)

_FENCE = re.compile(r"^[ \t]*(?P<mark>`{3,}|~{3,})[^\n`]*\n(?P<code>.*?)(?:^[ \t]*(?P=mark)|\Z)", re.M | re.S)
_TAGS = re.compile(r"(?:\[PYTHON\]|<(?:solution|execute|code)>)(?P<code>.*?)(?:\[/PYTHON\]|</\w+>|\Z)", re.S)
_TURNS = re.compile(r"<\|\w+\|>|</s>|^(?:Human|User):", re.M)
_THINKING = re.compile(r"\A.*</think>", re.S)
_CODE_LINE = re.compile(r"^[ \t]*(?:(?:def|class|async def|import|from)[ ]\w|@\w)", re.M)

_MAX_REPLY = 200_000  # characters of a reply that are looked at, after its thinking
_MAX_SPLITS = 100
_MAX_TURNS = 4  # the model's own, and some that it has made up
_MAX_BLOCKS = 20  # the last ones of a turn
_MAX_STARTS = 5  # lines of a turn where code may begin

_ODD_SPACES = str.maketrans({"\ufeff": "", "\u200b": "", "\u00a0": " "})
_CURLY_QUOTES = str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")


@dataclass(frozen=True, slots=True)
class Extraction:
    """What was found in a reply.

    Attributes:
        code: The program's text, or the best guess at it; empty where there is none.
        problem: Why it is no program with the wanted function, for the model; empty where it is one.
    """

    code: str
    problem: str = ""


def extract(reply: str, problem: Problem) -> Extraction:
    """The program in a reply to a problem."""
    text = storable(whole_lines(_THINKING.sub("", reply), _MAX_REPLY))
    text = text.replace("\r\n", "\n").replace("\r", "\n").translate(_ODD_SPACES)
    for variant in dict.fromkeys((text, text.translate(_CURLY_QUOTES))):
        for turn in _turns(variant):
            blocks = _blocks(turn)
            for code in (
                _function(blocks, problem),
                _unfenced(turn, problem),
                _body([*blocks, turn], problem),
            ):
                if code:
                    return Extraction(code)
    return _guess(_blocks(text), text, problem)


def _turns(text: str) -> Iterator[str]:
    """The first turns of a conversation that have any text."""
    turns = _TURNS.split(text, _MAX_SPLITS)
    return islice((turn for turn in turns if turn.strip()), _MAX_TURNS)


def _blocks(text: str) -> list[str]:
    """The last marked pieces of code, dedented, in order."""
    found = [match for marks in (_FENCE, _TAGS) for match in marks.finditer(text) if match["code"].strip()]
    found.sort(key=lambda match: match.start())
    return [textwrap.dedent(match["code"]) for match in found[-_MAX_BLOCKS:]]


def _function(blocks: Sequence[str], problem: Problem) -> str:
    """The last block that defines the function, with what it needs of the others."""
    for block in reversed(blocks):
        if code := _solution(block, problem):
            return _with_helpers(code, blocks)
    return ""


def _unfenced(text: str, problem: Problem) -> str:
    """The function amid text that nothing marks as code."""
    starts = [match.start() for match in _CODE_LINE.finditer(text)]
    for start in starts[:_MAX_STARTS]:
        if code := _solution(textwrap.dedent(text[start:]), problem):
            return code
    return ""


def _body(pieces: Sequence[str], problem: Problem) -> str:
    """The prompt, continued by a piece that is only the function's body."""
    head = problem.prompt.rstrip() + "\n"
    for piece in pieces:
        body = piece.strip("\n")
        as_is, first_line_short = body, "    " + body.lstrip()
        indented = textwrap.indent(textwrap.dedent(body), "    ")
        for continuation in dict.fromkeys((as_is, first_line_short, indented)):
            if code := _solution(head + continuation, problem):
                return code
    return ""


def _solution(text: str, problem: Problem) -> str:
    """The text up to the end of its valid Python, without demonstrations; empty if that is no solution."""
    if not re.search(rf"\bdef\s+{re.escape(problem.entry_point)}\b", text):
        return ""
    code, rest = valid_start(text)
    tree = parse(code)
    function = tree and find_function(tree, problem.entry_point)
    if not tree or not function or _is_stub(function):
        return ""
    if function is tree.body[-1] and rest.lstrip("\n").startswith((" ", "\t")):
        return ""  # it breaks off inside the function
    return _without_demonstrations(code, tree, problem.entry_point)


def _is_stub(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function does nothing: definitions, imports, `pass`, a docstring or a stray word."""
    idle = ast.Pass | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom
    return all(
        isinstance(node, idle)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant | ast.Name))
        or (isinstance(node, ast.Raise) and "NotImplementedError" in names_in(node))
        for node in function.body
    )


def _without_demonstrations(code: str, tree: ast.Module, name: str) -> str:
    """The code without the top-level statements that only try it out, which may fail or never end."""
    lines = lines_of(code)
    kept: set[int] = set()
    dropped: set[int] = set()
    for node in tree.body:
        span = range(first_line(node) - 1, node.end_lineno or node.lineno)
        (dropped if _is_demonstration(node, name) else kept).update(span)
    dropped -= kept
    return "".join("\n" if i in dropped else line for i, line in enumerate(lines)).strip("\n") + "\n"


def _is_demonstration(node: ast.stmt, name: str) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return False
        case ast.Assert() | ast.For() | ast.While() | ast.With():
            return True
        case ast.Expr(value=value):
            return not isinstance(value, ast.Constant)
        case _:
            return name in names_in(node) or "__name__" in names_in(node)


def _with_helpers(code: str, blocks: Sequence[str]) -> str:
    """The code, preceded by functions and imports of other blocks that it names but lacks."""
    tree = parse(code) or ast.Module([], [])
    have = {name for node in tree.body for name in _bound(node)}
    wanted = set(names_in(tree)) - have
    helpers = []
    for block in blocks:
        other = parse(block)
        for node in other.body if other else ():
            names = set(_bound(node))
            if names & wanted and not names & have:
                is_import = isinstance(node, ast.Import | ast.ImportFrom)  # which may share its line
                helpers.append(unparse(node) if is_import else statement_source(block, node))
                have |= names
    return "\n\n".join([*helpers, code])


def _bound(node: ast.stmt) -> Iterator[str]:
    """The names that a top-level definition or import binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)


def _guess(blocks: Sequence[str], text: str, problem: Problem) -> Extraction:
    """The likeliest text where no place holds a solution, and what is wrong with it."""
    start = _CODE_LINE.search(text)
    code = next((block for block in reversed(blocks) if problem.entry_point in block), "")
    code = code or (blocks[-1] if blocks else text[start.start() :] if start else "")
    if not code.strip():
        return Extraction("", "The reply has no code.")
    if error := compile_error(code):
        where = f" (line {error.lineno})" if error.lineno else ""
        return Extraction(code, f"SyntaxError: {error.msg}{where}")
    return Extraction(code, f"The reply has no complete function named {problem.entry_point}.")
