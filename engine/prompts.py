"""Prompt packs: a folder of Jinja2 templates and few-shot examples for each environment.

A pack's folder holds one folder per environment, with one `<template>.j2` per question to the model
and an optional `examples.yaml`, which templates see as `examples`. A template writes chat turns with

    {% call message("user") %} ... {% endcall %}

and what it writes outside of these calls is ignored; a template without any such call is plain text
for the model to continue. Every variable must be given: a misspelt one is an error, never a blank.
"""

import hashlib
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jinja2
import yaml

from engine.errors import PromptError
from engine.records import Message, Prompt

PACKS = Path(__file__).parent / "packs"


class Prompts:
    """The templates of one pack for one environment."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._examples = _read_examples(folder / "examples.yaml")
        self._strict = _templates(folder, jinja2.StrictUndefined)
        self._blank = _templates(folder, _Blank)

    def render(self, template: str, **variables: Any) -> Prompt:
        """The prompt that a template gives. Raises PromptError."""
        turns: list[Message] = []
        text = self._write(self._strict, template, variables, turns)
        if not any(part.strip() for part in ([turn.content for turn in turns] or [text])):
            raise PromptError(f"{self._path(template)}: gives neither turns nor text")
        return tuple(turns) or text

    def check(self, templates: Sequence[str], sample: Mapping[str, Any]) -> None:
        """Render the templates that a configuration asks for, before a model is loaded for them.

        Args:
            templates: Their names.
            sample: An example of every variable that they are given.

        Raises:
            PromptError: One is missing or fails.
        """
        for template in templates:
            self.render(template, **sample)

    def constant_part(self, template: str) -> Prompt:
        """What a template always says: instructions and few-shot examples, with everything else blank.

        Of a template that cannot do with blanks, the turns before it fails.
        """
        turns: list[Message] = []
        try:
            text = self._write(self._blank, template, {}, turns)
        except PromptError:
            text = ""
        return tuple(turns) or text

    def _path(self, template: str) -> Path:
        return self._folder / f"{template}.j2"

    def _write(
        self, templates: jinja2.Environment, name: str, variables: Mapping[str, Any], turns: list[Message]
    ) -> str:
        """Render a template: its turns are appended to `turns`, its text outside of them is returned."""
        path = self._path(name)
        if not path.is_file():
            raise PromptError(
                f"{self._folder}: there is no template {path.name}; this configuration asks for it"
            )
        try:
            return templates.get_template(path.name).render(
                variables, message=_collector(turns), examples=self._examples
            )
        except PromptError:
            raise
        except Exception as error:  # a template is code, and may fail like any other
            raise PromptError(f"{_where(error, path)}: {_what(error)}") from error


@dataclass(frozen=True)
class PromptPack:
    """Where prompts come from.

    Attributes:
        folder: Name of a pack in engine/packs, or a path to one.
    """

    folder: str = "default"

    def for_environment(self, name: str) -> Prompts:
        """The pack's prompts for one environment. Raises PromptError."""
        folder = self.path / name
        if not folder.is_dir():
            raise PromptError(f"prompts.folder: the pack {self.path} has no prompts for {name!r}")
        return Prompts(folder)

    @cached_property
    def path(self) -> Path:
        """The pack's folder. Raises PromptError when there is none."""
        own = {path.name: path for path in PACKS.iterdir() if path.is_dir()}
        if self.folder in own:
            return own[self.folder]
        try:
            path = Path(self.folder).expanduser()
            if self.folder and path.is_dir():
                return path
        except (OSError, RuntimeError):  # a name that cannot be, or another user's home
            pass
        raise PromptError(
            f"prompts.folder: no folder and no pack called {self.folder!r}; packs: {', '.join(sorted(own))}"
        )

    def sha256(self, environment: str) -> str:
        """Checksum over the names and contents of all files of one environment. Raises PromptError."""
        folder = self.path / environment
        digest = hashlib.sha256()
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            name = path.relative_to(folder).as_posix()
            digest.update(f"{name}\0{hashlib.sha256(_read_bytes(path)).hexdigest()}\0".encode())
        return digest.hexdigest()


class _Blank(jinja2.ChainableUndefined):
    """Stands for a variable that is not known yet: nothing, whatever a template does with it."""

    def _itself(self, *args: Any, **options: Any) -> "_Blank":
        return self

    def _nothing(self, *args: Any, **options: Any) -> bool:
        return False

    __call__ = __round__ = __abs__ = __neg__ = __pos__ = _itself  # type: ignore[assignment]
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = _itself  # type: ignore[assignment]
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = _itself  # type: ignore[assignment]
    __lt__ = __le__ = __gt__ = __ge__ = __contains__ = _nothing  # type: ignore[assignment]

    def __int__(self) -> int:  # type: ignore[override]
        return 0

    __index__ = __int__

    def __float__(self) -> float:  # type: ignore[override]
        return 0.0


def _templates(folder: Path, undefined: type[jinja2.Undefined]) -> jinja2.Environment:
    def load(name: str) -> tuple[str, str, None] | None:
        path = folder.joinpath(*jinja2.loaders.split_template_path(name))
        return (_read_text(path), str(path), None) if path.is_file() else None

    return jinja2.Environment(
        loader=jinja2.FunctionLoader(load),
        undefined=undefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )


def _collector(turns: list[Message]) -> Callable[..., str]:
    def message(role: str, caller: Callable[[], str]) -> str:
        if role not in ("system", "user", "assistant"):
            raise jinja2.TemplateRuntimeError(f"message({role!r}): must be system, user or assistant")
        turns.append(Message(role, caller().strip("\n")))  # type: ignore[arg-type]  # checked above
        return ""

    return message


def _where(error: Exception, path: Path) -> str:
    """File and line of the template in which an error arose; `path` where that is not known."""
    if isinstance(error, jinja2.TemplateSyntaxError):
        return f"{error.filename or path}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if Path(frame.filename).is_relative_to(path.parent)]
    return f"{inside[-1].filename}:{inside[-1].lineno}" if inside else str(path)


def _what(error: Exception) -> str:
    if isinstance(error, jinja2.TemplateNotFound):
        return f"there is no {error.name} to include"
    kind = "" if isinstance(error, jinja2.TemplateError) else f"{type(error).__name__}: "
    return " ".join(f"{kind}{error}".split())


def _read_examples(path: Path) -> Any:
    if not path.exists():
        return {}
    try:
        examples = yaml.safe_load(_read_text(path)) or {}
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        where = getattr(error, "problem_mark", None)
        line = f":{where.line + 1}" if where else ""
        raise PromptError(f"{path}{line}: not valid YAML") from error
    if not isinstance(examples, dict):
        raise PromptError(f"{path}: must map names to lists of examples, got {examples!r:.80}")
    return examples


def _read_text(path: Path) -> str:
    data = _read_bytes(path)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PromptError(f"{path}:{line}: not UTF-8 text") from error


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise PromptError(f"{path}: cannot be read ({error.strerror})") from error
