"""Finds the program in a model's reply.

A reply may hold several fenced blocks, an unclosed one, tags or none of these, chatter before and after, only
the body of the function, or the prompt again. Every place where code may be is tried, best evidence first;
the first that defines the entry point wins. Nothing is ever run here.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from envs.programming.problem import Problem, defines, find_function, first_line, parse

_FENCE = re.compile(r"^[ \t]*(?P<mark>`{3,}|~{3,})[^\n`]*\n(?P<code>.*?)(?:^[ \t]*(?P=mark)|\Z)", re.M | re.S)
_TAG = re.compile(r"\[PYTHON\](?P<code>.*?)(?:\[/PYTHON\]|\Z)", re.S)
_CODE_LINE = re.compile(r"(?:def|class|async def|import|from)\s+\w|@\w")
_ODD_CHARACTERS = str.maketrans({"\ufeff": "", "\u200b": "", "\u00a0": " "})


@dataclass(frozen=True, slots=True)
class Extraction:
    """What was found in a reply.

    Attributes:
        code: The best guess at the program's text; empty where there is none.
        found: Whether it is valid Python that defines the entry point.
        problem: What is wrong with it, for the model; empty where nothing is.
    """

    code: str
    found: bool
    problem: str = ""


def extract(reply: str, problem: Problem) -> Extraction:
    """The program in a reply to a problem."""
    text = reply.replace("\r\n", "\n").replace("\r", "\n").translate(_ODD_CHARACTERS)
    places = list(_places(text))
    for place in places:
        ...
