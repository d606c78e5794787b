"""A Hydra application whose user never sees a stack trace for a mistake of their own."""

import itertools
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, cast

import hydra
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra._internal.utils import get_args_parser
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from engine.config import did_you_mean
from engine.errors import ConfigError, ReflexionError
from envs.base import EnvironmentFault

CONF = Path(__file__).resolve().parent.parent / "conf"
USER_ERRORS = (ReflexionError, EnvironmentFault, HydraException, OmegaConfBaseException)

Resolved = dict[str, Any]


def main(config_name: str, check: Callable[[Resolved], Any], job: Callable[[Resolved], None]) -> None:
    """Run an application on conf/<config_name>.yaml.

    Args:
        config_name: The primary configuration.
        check: Builds and checks the configuration of one cell; all cells are checked before the first runs.
        job: Does the work of one cell.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors come here instead of being printed by Hydra
    _say_what_takes_long()

    def run_cell(node: DictConfig) -> None:
        try:
            job(resolve(node))
        except USER_ERRORS as error:
            refuse(error, config_name)

    try:
        for node in _cells(config_name):
            check(resolve(node))
        hydra.main(version_base="1.3", config_path=str(CONF), config_name=config_name)(run_cell)()
    except USER_ERRORS as error:
        refuse(error, config_name)


def _say_what_takes_long() -> None:
    """Show what the engine reports of downloads and conversions, which may take minutes."""
    handler = logging.StreamHandler(sys.stdout)
    logger = logging.getLogger("engine")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def refuse(error: BaseException, config_name: str) -> NoReturn:
    """Print one line and leave with exit code 2."""
    print(f"error: {_one_line(error, config_name)}", file=sys.stderr, flush=True)
    raise SystemExit(2) from error


def resolve(node: DictConfig) -> Resolved:
    """The configuration as plain data, with all interpolations resolved."""
    return cast(Resolved, OmegaConf.to_container(node, resolve=True, throw_on_missing=True))


def _cells(config_name: str) -> Iterator[DictConfig]:
    """Every cell that the command line asks for; none when it only asks to be shown something."""
    arguments = get_args_parser().parse_args()
    if arguments.help or arguments.hydra_help or arguments.cfg or arguments.info:
        return
    overrides = OverridesParser.create().parse_overrides(arguments.overrides)
    batches = BasicSweeper.split_arguments(overrides, None) if arguments.multirun else [[arguments.overrides]]
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        for cell in itertools.chain.from_iterable(batches):
            yield hydra.compose(config_name, overrides=list(cell))


def _one_line(error: BaseException, config_name: str) -> str:
    message = str(error)
    if bad := re.search(r"Could not override '([^']+)'", message):
        return _unknown_key(bad[1], config_name)
    if bad := re.search(r"Could not find '([^']+)'", message):
        group, _, choice = bad[1].rpartition("/")
        options = re.findall(r"^\t(\S+)$", message, re.MULTILINE)
        return f"{group}: there is no {choice!r} in conf/{group}{did_you_mean(choice, options)}"
    if bad := re.search(r"Missing mandatory value: (\S+)", message):
        return f"{bad[1]}: must be given"
    return " ".join(message.split())


def _unknown_key(key: str, config_name: str) -> str:
    """What to say of an option that the configuration does not have."""
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        node: Any = hydra.compose(config_name)
    parent, _, name = key.rpartition(".")
    for part in parent.split(".") if parent else ():
        if not isinstance(node, DictConfig) or part not in node:
            return _unknown_key(parent, config_name)
        node = node[part]
    known = [str(option) for option in node] if isinstance(node, DictConfig) else []
    return str(ConfigError(f"{key}: unknown option{did_you_mean(name, known)}"))
