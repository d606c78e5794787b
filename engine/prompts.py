"""Prompt packs: a folder of Jinja2 templates and few-shot examples for each environment.

A pack's folder holds one folder per environment, with one `<template>.j2` per question to the model
and an optional `examples.yaml`, which templates see as `examples`. A template writes chat turns with

    {% call message("user") %} ... {% endcall %}

and what it writes outside of these calls is ignored; a template without any such call is plain text
for the model to continue. Every variable must be given: a misspelt one is an error, never a blank.
"""

import hashlib
from collections.abc import Callable, Iterator
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

    def render(self, template: str, **variables: Any) -> Prompt:
        """The prompt that a template gives. Raises PromptError."""
        return self._render(self._strict, template, variables)

    def constant_part(self, template: str) -> Prompt:
        """What a template always says: instructions and few-shot examples, with everything else blank."""
        return self._render(_templates(self._folder, jinja2.ChainableUndefined), template, {})

    def names(self) -> list[str]:
        """The templates that there are."""
        return sorted(path.stem for path in self._folder.glob("*.j2"))

    def _render(self, templates: jinja2.Environment, name: str, variables: dict[str, Any]) -> Prompt:
        turns: list[Message] = []
        try:
            text = templates.get_template(f"{name}.j2").render(
                variables, message=_collector(turns), examples=self._examples
            )
        except jinja2.TemplateNotFound as error:
            raise PromptError(
                f"{self._folder}: there is no template {name}.j2; this configuration asks for it"
            ) from error
        except jinja2.TemplateError as error:
            line = f":{error.lineno}" if isinstance(error, jinja2.TemplateSyntaxError) else ""
            raise PromptError(f"{self._folder / name}.j2{line}: {error}") from error
        return tuple(turns) if turns else text


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
        for candidate in (Path(self.folder).expanduser(), PACKS / self.folder):
            if candidate.is_dir():
                return candidate
        known = ", ".join(sorted(path.name for path in PACKS.iterdir() if path.is_dir()))
        raise PromptError(f"prompts.folder: no folder and no pack called {self.folder!r}; packs: {known}")

    def sha256(self, environment: str) -> str:
        """Checksum over the names and contents of one environment's prompts."""
        digest = hashlib.sha256()
        for path in _files(self.path / environment):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    yield from sorted(path for path in folder.iterdir() if path.suffix in {".j2", ".yaml"})


def _templates(folder: Path, undefined: type[jinja2.Undefined]) -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
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


def _read_examples(path: Path) -> Any:
    if not path.exists():
        return {}
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f":{where.line + 1}" if where else ""
        raise PromptError(f"{path}{line}: not valid YAML") from error
