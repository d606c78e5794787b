from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from engine import config
from engine.errors import ConfigError
from engine.inference.base import ModelSpec
from engine.memory import Memory
from scripts.hydra_app import CONF

GROUPS = sorted((path.parent.name, path.stem) for path in CONF.glob("*/*.yaml") if path.parent.parent == CONF)


def resolved(*overrides: str) -> dict[str, Any]:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        node = compose("sweep", overrides=list(overrides))
    return OmegaConf.to_container(node, resolve=True)  # type: ignore[return-value]


NEEDED = {("backend", "replay"): ("backend.run=somewhere",)}
"""Options without which a choice cannot be used."""


@pytest.mark.parametrize(("group", "choice"), GROUPS)
def test_every_yaml_composes_and_validates(group: str, choice: str) -> None:
    config.load(resolved(f"{group}={choice}", *NEEDED.get((group, choice), ())))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"memory": {"limt": 3}}, "memory.limt: unknown option; did you mean limit?"),
        ({"memory": {"limit": -1}}, "memory.limit: must be 0 or more, got -1"),
        ({"memory": {"limit": "3"}}, "memory.limit: Input should be a valid integer, got '3'"),
        ({"limits": {"max_episodes": 0}}, "limits.max_episodes: must be 1 or more, got 0"),
        ({"sampling": {"actor": {"temperature": -1}}}, "sampling.actor.temperature: must be 0 or more"),
        ({"sampling": {"player": {}}}, "sampling.player: unknown option"),
        ({"display": {"mode": "loud"}}, "display.mode: Input should be 'auto', 'live', 'plain' or 'off'"),
        ({"actor": {"_target_": "os.system"}}, "actor._target_: os.system is outside this project"),
        (
            {"actor": {"_target_": "engine.nonesuch.X"}},
            "actor._target_: engine.nonesuch.X cannot be imported",
        ),
        ({"actor": {"_target_": "engine.loop.is_over"}}, "is no dataclass of options"),
        ({"tasks": {"first": 0}}, "tasks.first: must be 1 or more"),
        ({"surprise": 1}, "surprise: unknown option"),
        ({"seed": "x"}, "seed: Input should be a valid integer"),
    ],
)
def test_wrong_values_are_one_line_that_names_the_key(change: dict[str, Any], message: str) -> None:
    node = OmegaConf.to_container(OmegaConf.merge(resolved(), change))
    with pytest.raises(ConfigError) as caught:
        config.load(node)  # type: ignore[arg-type]
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_retry_without_temperature_is_refused() -> None:
    with pytest.raises(ConfigError, match="would repeat the same trial"):
        config.load(resolved("strategy=retry", "sampling=greedy"))
    config.load(resolved("strategy=single", "sampling=greedy"))


def test_targets_of_other_packages_can_be_allowed_by_name() -> None:
    node = resolved("actor._target_=tests.engine.test_config.Theirs", "security.allow_targets=[tests]")
    assert isinstance(config.load(node).actor, Theirs)


@dataclass(frozen=True)
class Theirs:
    """Stands for a user's own actor."""

    size: int = 1


@dataclass(frozen=True)
class Nested:
    """Holds one of every kind of option."""

    memory: Memory
    names: tuple[str, ...] = ()
    mode: Literal["a", "b"] = "a"
    rate: float = 0.0
    part: Any = None


def test_nested_nodes_are_built_and_named_in_errors() -> None:
    node = {
        "memory": {"limit": 2},
        "names": ["x"],
        "rate": 1,
        "part": {"_target_": "engine.memory.Memory", "limit": 1},
    }
    assert config.build(node, "n", Nested) == Nested(Memory(2), ("x",), "a", 1.0, Memory(1))
    with pytest.raises(ConfigError, match=r"n\.memory\.limit: must be 0 or more"):
        config.build({"memory": {"limit": -2}}, "n", Nested)
    with pytest.raises(ConfigError, match=r"n\.names\.1: Input should be a valid string, got 2"):
        config.build({"memory": {}, "names": ["x", 2]}, "n", Nested)
    with pytest.raises(ConfigError, match=r"n\.memory: must be given"):
        config.build({}, "n", Nested)


def test_a_model_yaml_is_a_model_spec() -> None:
    spec = config.load(resolved("model.id=org/name")).model
    assert isinstance(spec, ModelSpec)
    assert spec.id == "org/name"
