"""From Hydra's composed configuration to checked objects.

Every configurable thing is a dataclass of plain options; its fields are the schema of its YAML. Where a
field's type is a contract, such as `Actor`, the node's `_target_` names a dataclass that fulfils it.
"""

import dataclasses
import difflib
import importlib
import json
import math
import re
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

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

    def __post_init__(self) -> None:
        if not self.runs.strip():
            raise ValueError("runs: must name a folder, got none")


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
    config: SweepConfig = build(node, "", SweepConfig, allowed)
    _check_together(config)
    return config


def build(node: Any, key: str, kind: Any = None, allowed: Sequence[str] = ()) -> Any:
    """Check one node against its dataclass and make the object. Raises ConfigError.

    Args:
        node: The resolved node.
        key: Where it stands, for messages.
        kind: The dataclass, or the contract that the class named by the node's `_target_` must fulfil; None
            takes any such class.
        allowed: Packages besides the project's own that `_target_` may name.
    """
    if not isinstance(node, Mapping):
        raise ConfigError(f"{key}: must be a group of options, got {node!r:.80}")
    options = dict(node)
    target = options.pop("_target_", None)
    if not dataclasses.is_dataclass(kind):
        kind = _resolve(target, key, kind, allowed)
    elif target is not None:
        raise ConfigError(f"{key}._target_: is not used here; remove it")
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
    reject_unknown_keys(options, key, set(fields))
    hints = typing.get_type_hints(kind)
    made = {}
    for name, field in fields.items():
        if name in options:
            made[name] = _option(options[name], join(key, name), hints[name], allowed)
        elif field.default is field.default_factory is dataclasses.MISSING:
            raise ConfigError(f"{join(key, name)}: must be given")
    try:
        return kind(**made)
    except ValueError as error:
        raise ConfigError(join(key, error)) from error


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


def _option(value: Any, key: str, hint: Any, allowed: Sequence[str]) -> Any:
    """One option as its field's type: an object of its own, one for each name, or a plain value."""
    if _is_contract(hint) or (hint is Any and isinstance(value, Mapping) and "_target_" in value):
        return build(value, key, hint, allowed)
    if (nested := _dataclass_in(hint)) and not (value is None and type(None) in typing.get_args(hint)):
        return build(value, key, nested, allowed)
    if typing.get_origin(hint) is Mapping:
        return _build_each(value, key, hint, allowed)
    return _convert(value, key, hint)


def _build_each(node: Any, key: str, hint: Any, allowed: Sequence[str]) -> dict[str, Any]:
    """An object for each of the names that a Mapping[Literal[...], dataclass] has."""
    names, kind = (typing.get_args(part) or part for part in typing.get_args(hint))
    if not isinstance(node, Mapping):
        raise ConfigError(f"{key}: must be a group of {', '.join(names)}, got {node!r:.80}")
    reject_unknown_keys(node, key, set(names))
    for name in names:
        if name not in node:
            raise ConfigError(f"{key}.{name}: must be given")
    return {name: build(node[name], f"{key}.{name}", kind, allowed) for name in names}


def _resolve(target: object, key: str, contract: Any, allowed: Sequence[str]) -> type[Any]:
    """The dataclass that a `_target_` names, if its package may be used and it fulfils the contract."""
    where = f"{key}._target_"
    if not isinstance(target, str) or not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)+", target):
        raise ConfigError(f"{where}: must name a class as package.module.Class, got {target!r}")
    package = target.partition(".")[0]
    if package not in (*_OWN_PACKAGES, *allowed):
        raise ConfigError(
            f"{where}: {target} is outside this project; "
            f"security.allow_targets=[{package}] allows it, if you trust that code"
        )
    module, _, name = target.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:  # whatever an import may run into
        raise ConfigError(f"{where}: {target} cannot be imported ({error})") from error
    if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
        raise ConfigError(f"{where}: {target} is no dataclass of options")
    if _is_contract(contract) and (lacking := _lacking(found, contract)):
        raise ConfigError(f"{where}: {target} is no {contract.__name__} (it has no {', '.join(lacking)})")
    return found


@runtime_checkable
class _Empty(Protocol):
    """Has what every protocol has, and no member of its own."""


def _is_contract(hint: Any) -> bool:
    return bool(getattr(hint, "_is_protocol", False))


def _lacking(kind: type[Any], contract: type[Any]) -> list[str]:
    """The contract's members that a dataclass does not have."""
    members = (set(dir(contract)) - set(dir(_Empty))) | set(typing.get_type_hints(contract))
    return sorted(members - set(dir(kind)) - set(typing.get_type_hints(kind)))


def _dataclass_in(hint: Any) -> type[Any] | None:
    """The dataclass that a field's type is, or may be."""
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    options = typing.get_args(hint) if union else (hint,)
    return next((option for option in options if dataclasses.is_dataclass(option)), None)  # type: ignore[return-value]


def _convert(value: Any, key: str, hint: Any) -> Any:
    """A plain value as its field's type, without guessing: "3" is no number, True is no integer."""
    _refuse_unbounded(value, key)
    try:
        return pydantic.TypeAdapter(hint).validate_json(json.dumps(value), strict=True)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(
            f"{_place(value, key, first['loc'])}: {first['msg']}, got {first['input']!r:.80}"
        ) from error
    except (TypeError, pydantic.errors.PydanticUserError) as error:
        raise ConfigError(f"{key}: cannot be set to {value!r:.80} in a configuration") from error


def _place(value: Any, key: str, parts: Sequence[int | str]) -> str:
    """The key of what pydantic complains of, without the names that it gives to the members of a union."""
    for part in parts:
        inside = part in value if isinstance(value, Mapping) else isinstance(value, list)
        if inside:
            value, key = value[part], join(key, part)
    return key


def _refuse_unbounded(value: Any, key: str) -> None:
    """Refuse numbers that no option can mean: infinity, not-a-number, integers beyond 64 bits."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{key}: must be a finite number, got {value}")
    if isinstance(value, int) and abs(value) >> 63:
        raise ConfigError(f"{key}: must be an integer of at most 64 bits")
    parts = value.items() if isinstance(value, Mapping) else enumerate(value if type(value) is list else ())
    for name, part in parts:
        _refuse_unbounded(part, join(key, name))


def _check_together(config: SweepConfig) -> None:
    """Refuse names that no folder can have, and combinations that cannot mean what they say."""
    strategy = config.strategy
    if not re.fullmatch(r"[a-z0-9_-]{1,40}", strategy.name):
        raise ConfigError(
            f"strategy.name: must be 1 to 40 of the characters a-z, 0-9, _ and -, got {strategy.name!r:.80}"
        )
    if strategy.trials > 1 and not strategy.reflect and config.sampling["actor"].temperature == 0:
        raise ConfigError(
            f"sampling.actor.temperature: is 0, so strategy={strategy.name} would repeat the same trial; "
            "set it above 0"
        )
