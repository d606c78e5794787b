import itertools
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from engine import config
from engine.actors.base import Actor
from engine.attempt import Attempt
from engine.errors import ConfigError
from engine.inference.base import ModelSpec
from engine.memory import Memory
from scripts import bench, score
from scripts.hydra_app import CONF

GROUPS = sorted((path.parent.name, path.stem) for path in CONF.glob("*/*.yaml") if path.parent.parent == CONF)


HELP = sorted(path.stem for path in CONF.glob("hydra/help/*.yaml"))
PRIMARY = sorted(path.stem for path in CONF.glob("*.yaml"))


def resolved(*overrides: str, name: str = "sweep") -> dict[str, Any]:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        node = compose(name, overrides=list(overrides))
    return OmegaConf.to_container(node, resolve=True)  # type: ignore[return-value]


NEEDED = {("backend", "replay"): ("backend.run=somewhere",)}
"""Options without which a choice cannot be used."""


@pytest.mark.parametrize(("group", "choice"), GROUPS)
def test_every_yaml_composes_and_validates(group: str, choice: str) -> None:
    config.load(resolved(f"{group}={choice}", *NEEDED.get((group, choice), ())))


def test_every_entry_composes_and_validates_through_its_own_script() -> None:
    bench.check(resolved(name="bench"))
    score.load(resolved("outcomes=a.jsonl", "out=b.jsonl", name="score"))
    config.load(resolved())
    assert PRIMARY == ["bench", "score", "sweep"]


@pytest.mark.parametrize("name", HELP)
def test_every_help_composes_and_belongs_to_an_entry(name: str) -> None:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        node = compose("sweep", overrides=[f"hydra/help={name}"], return_hydra_config=True)
        assert "Usage: python scripts/" in node.hydra.help.template
    used = [
        entry for entry in PRIMARY if f"override hydra/help: {name}" in (CONF / f"{entry}.yaml").read_text()
    ]
    assert len(used) == 1


def test_every_yaml_is_covered_by_these_tests() -> None:
    covered = {f"{group}/{choice}.yaml" for group, choice in GROUPS}
    covered |= {f"hydra/help/{name}.yaml" for name in HELP} | {f"{name}.yaml" for name in PRIMARY}
    assert {path.relative_to(CONF).as_posix() for path in CONF.rglob("*.yaml")} == covered


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
        ({"seed": 1 << 63}, "seed: must be an integer of at most 64 bits"),
        ({"limits": {"max_trials": float("inf")}}, "limits.max_trials: must be a finite number, got inf"),
        (
            {"backend": {"gpu_memory_utilization": float("nan")}},
            "backend.gpu_memory_utilization: must be a fin",
        ),
        ({"sampling": {"actor": {"top_p": float("nan")}}}, "sampling.actor.top_p: must be a finite number"),
        ({"sampling": {"actor": {"stop": [1]}}}, "sampling.actor.stop.0: Input should be a valid string"),
        ({"model": {"template_options": {"a": 1}}}, "model.template_options.a: Input should be a valid bool"),
        ({"strategy": {"name": "../../escape"}}, "strategy.name: must be 1 to 40 of the characters a-z"),
        ({"strategy": {"name": "a/b"}}, "strategy.name: must be"),
        ({"strategy": {"name": ""}}, "strategy.name: must be"),
        ({"strategy": {"name": "x" * 41}}, "strategy.name: must be"),
        ({"paths": {"runs": ""}}, "paths.runs: must name a folder"),
        ({"env": {"_target_": ".engine.x"}}, "env._target_: must name a class as package.module.Class"),
        (
            {"env": {"sandbox": {"_target_": "engine.memory.Memory"}}},
            "env.sandbox._target_: is not used here",
        ),
    ],
)
def test_wrong_values_are_one_line_that_names_the_key(change: dict[str, Any], message: str) -> None:
    node = OmegaConf.to_container(OmegaConf.merge(resolved(), change))
    with pytest.raises(ConfigError) as caught:
        config.load(node)  # type: ignore[arg-type]
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


NODES = ["env", "env.sandbox", *(field for field in resolved() if field != "seed"), "sampling.actor"]


@pytest.mark.parametrize(("key", "value"), list(itertools.product(NODES, [None, 3, "x", [1]])))
def test_a_group_that_is_no_group_is_named(key: str, value: Any) -> None:
    node = resolved()
    *parents, last = key.split(".")
    inner = node
    for part in parents:
        inner = inner[part]
    inner[last] = value
    with pytest.raises(ConfigError, match=rf"^{key}: must be a group of "):
        config.load(node)


CONTRACTS = {"env": "Environment", "backend": "Backend", "actor": "Actor", "evaluator": "Evaluator"} | {
    "reflector": "Reflector"
}
TARGETS = {group: resolved()[group]["_target_"] for group in CONTRACTS}


@pytest.mark.parametrize(("group", "other"), list(itertools.permutations(CONTRACTS, 2)))
def test_a_class_of_another_group_is_refused(group: str, other: str) -> None:
    node = resolved()
    node[group] = {"_target_": TARGETS[other]}
    with pytest.raises(ConfigError) as caught:
        config.load(node)
    assert f"{group}._target_: {TARGETS[other]} is no {CONTRACTS[group]} (it has no " in str(caught.value)


def test_what_a_class_lacks_is_named() -> None:
    with pytest.raises(ConfigError, match=r"SelfTests is no Actor \(it has no play\)"):
        config.build({"_target_": "engine.evaluators.self_tests.SelfTests"}, "actor", Actor)


def test_every_class_of_a_group_fulfils_its_contract() -> None:
    assert set(CONTRACTS) == {
        name
        for name, hint in typing.get_type_hints(config.SweepConfig).items()
        if isinstance(hint, type) and getattr(hint, "_is_protocol", False)
    }


def test_numbers_without_bounds_are_found_at_any_depth() -> None:
    for value in ([1.0, float("inf")], {"a": {"b": [float("nan")]}}, [[-(1 << 64)]]):
        with pytest.raises(ConfigError, match=r"^n\.part\S*: must be a"):
            config.build({"memory": {}, "part": value}, "n", Nested)


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

    templates: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    size: int = 1

    async def play(self, attempt: Attempt) -> None:
        return None


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
