"""Models that the tests of inference use."""

from pathlib import Path
from typing import Any

import yaml

from engine.config import build
from engine.inference.base import ModelSpec

MODELS = Path(__file__).parents[3] / "conf" / "model"


def spec(name: str, **changes: Any) -> ModelSpec:
    """The model that conf/model/NAME.yaml describes, with some options changed."""
    node = yaml.safe_load((MODELS / f"{name}.yaml").read_text())
    made = build({**node, **changes}, "model", ModelSpec)
    assert isinstance(made, ModelSpec)
    return made
