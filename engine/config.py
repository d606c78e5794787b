"""From Hydra's composed configuration to checked objects.

Every configurable thing is a dataclass of plain options; its fields are the schema of its YAML. A node
with a `_target_` names its own dataclass; the other nodes have the one given in `SweepConfig`.
"""

import dataclasses
import difflib
import importlib
import json
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pydantic

from engine.actors.base import Actor
from engine.display import Display
from engine.errors import ConfigError
from engine.evaluators.base import Evaluator
from engine.inference.base import Backend, ModelSpec
from engine.loop import Strategy
from engine.memory import Memory
from engine.prompts import PromptPack
from engine.records import Role, Sampling
from engine.reflectors.base import Reflector
from envs.base import Environment

_OWN_PACKAGES = ("engine", "envs")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a sweep may use.

    Attributes:
        max_trials: Most trials of one task, for strategies that try again.
        max_episodes: Most episodes under way at once.
    """

    max_trials: int
    max_episodes: int

    def __post_init__(self) -> None:
        for name in ("max_trials", "max_episodes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be 1 or more, got {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which of the environment's tasks are played.

    Attributes:
        ids: Only these, in the environment's order; empty takes all.
        first: Only the first so many of them; None takes all.
    """

    ids: tuple[str, ...] = ()
    first: int | None = None

    def __post_init__(self) -> None:
        if self.first is not None and self.first < 1:
            raise ValueError(f"first: must be 1 or more, or null for all, got {self.first}")


@dataclass(frozen=True, slots=True)
class Paths:
    """Where things lie. Not part of a run's identity.

    Attributes:
        runs: Folder of all run directories.
    """

    runs: str


@dataclass(frozen=True, slots=True)
class Security:
    """What a configuration may bring into the process.

    Attributes:
        allow_targets: Packages besides the project's own whose classes `_target_` may name.
    """

    allow_targets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SweepConfig:
    """One sweep: conf/sweep.yaml with its groups."""

    env: Environment
    model: ModelSpec
    backend: Backend
    prompts: PromptPack
    actor: Actor
    limits: Limits
    strategy: Strategy
    evaluator: Evaluator
    reflector: Reflector
    memory: Memory
    sampling: Mapping[Role, Sampling]
    tasks: Selection
    display: Display
    paths: Paths
    security: Security
    seed: int


def load(node: Mapping[str, Any]) -> SweepConfig:
    """Check a resolved configuration and build its objects. Raises ConfigError."""
    allowed = build(node.get("security") or {}, "security", Security).allow_targets
    hints = typing.get_type_hints(SweepConfig)
    reject_unknown_keys(node, "", set(hints))
    parts: dict[str, Any] = {}
    for key, hint in hints.items():
        if key not in node:
            raise ConfigError(f"{key}: is missing from the configuration")
        if key == "sampling":
            parts[key] = _sampling(node[key])
        elif key == "seed":
            parts[key] = _convert(node[key], key, int)
        else:
            parts[key] = build(node[key], key, _dataclass_in(hint), allowed)
    config = SweepConfig(**parts)
    _check_together(config)
    return config


def build(node: Any, key: str, kind: type[Any] | None = None, allowed: Sequence[str] = ()) -> Any:
    """Check one node against its dataclass and make the object. Raises ConfigError.

    Args:
        node: The resolved node.
        key: Where it stands, for messages.
        kind: The dataclass; None takes the one that the node's `_target_` names.
        allowed: Packages besides the project's own that `_target_` may name.
    """
    if not isinstance(node, Mapping):
        raise ConfigError(f"{key}: must be a group of options, got {node!r}")
    options = dict(node)
    target = options.pop("_target_", None)
    if kind is None:
        kind = _resolve(target, key, allowed)
    elif target is not None:
        raise ConfigError(f"{key}._target_: is not used here; remove it")
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
    reject_unknown_keys(options, key, set(fields))
    hints = typing.get_type_hints(kind)
    for name, value in options.items():
        where = f"{key}.{name}"
        if isinstance(value, Mapping) and "_target_" in value:
            options[name] = build(value, where, None, allowed)
        elif isinstance(value, Mapping) and (nested := _dataclass_in(hints[name])):
            options[name] = build(value, where, nested, allowed)
        else:
            options[name] = _convert(value, where, hints[name])
    missing = [
        name
        for name, field in fields.items()
        if name not in options and field.default is field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ConfigError(f"{key}.{missing[0]}: must be given")
    try:
        return kind(**options)
    except ValueError as error:
        raise ConfigError(f"{key}.{error}") from error


def reject_unknown_keys(options: Mapping[str, Any], key: str, known: set[str]) -> None:
    """Raise ConfigError with the nearest right name for the first key that is not known."""
    for name in options:
        if name not in known:
            raise ConfigError(f"{join(key, name)}: unknown option{did_you_mean(str(name), known)}")


def did_you_mean(name: str, known: typing.Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest right one, or all there are."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    some = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    return f"; did you mean {near[0]}?" if near else f"; there are: {some}"


def join(key: str, name: object) -> str:
    """A dotted key."""
    return f"{key}.{name}" if key else str(name)


def _resolve(target: object, key: str, allowed: Sequence[str]) -> type[Any]:
    """The dataclass that a `_target_` names, if its package may be used."""
    if not isinstance(target, str) or "." not in target:
        raise ConfigError(f"{key}._target_: must name a class, got {target!r}")
    package = target.partition(".")[0]
    if package not in (*_OWN_PACKAGES, *allowed):
        raise ConfigError(
            f"{key}._target_: {target} is outside this project; "
            f"security.allow_targets=[{package}] allows it, if you trust that code"
        )
    module, _, name = target.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{key}._target_: {target} cannot be imported ({error})") from error
    if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
        raise ConfigError(f"{key}._target_: {target} is no dataclass of options")
    return found


def _convert(value: Any, key: str, hint: Any) -> Any:
    """A plain value as its field's type, without guessing: "3" is no number, True is no integer."""
    try:
        return pydantic.TypeAdapter(hint).validate_json(json.dumps(value), strict=True)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = join(key, ".".join(str(part) for part in first["loc"] if isinstance(part, int)))
        raise ConfigError(f"{place.rstrip('.')}: {first['msg']}, got {first['input']!r}") from error


def _dataclass_in(hint: Any) -> type[Any] | None:
    """The dataclass that a field's type is, or allows."""
    options = typing.get_args(hint) or (hint,)
    return next((option for option in options if dataclasses.is_dataclass(option)), None)  # type: ignore[return-value]


def _sampling(node: Any) -> dict[Role, Sampling]:
    roles = typing.get_args(Role)
    if not isinstance(node, Mapping):
        raise ConfigError(f"sampling: must be a group of roles, got {node!r}")
    reject_unknown_keys(node, "sampling", set(roles))
    for role in roles:
        if role not in node:
            raise ConfigError(f"sampling.{role}: is missing")
    return {role: build(node[role], f"sampling.{role}", Sampling) for role in roles}


def _check_together(config: SweepConfig) -> None:
    """Refuse combinations that cannot mean what they say."""
    strategy = config.strategy
    if strategy.trials > 1 and not strategy.reflect and config.sampling["actor"].temperature == 0:
        raise ConfigError(
            f"sampling.actor.temperature: is 0, so strategy={strategy.name} would repeat the same trial; "
            "set it above 0"
        )
