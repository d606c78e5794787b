"""A Hydra application whose user never sees a stack trace for a mistake of their own."""

import argparse
import contextlib
import itertools
import logging
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

import hydra
import yaml
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra._internal.utils import get_args_parser
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import ConfigCompositionException, HydraException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from engine.config import did_you_mean
from engine.errors import ConfigError, ReflexionError
from envs.base import EnvironmentFault
from scripts import endings

CONF = Path(__file__).resolve().parent.parent / "conf"
USER_ERRORS = (ReflexionError, EnvironmentFault, HydraException, OmegaConfBaseException)

Resolved = dict[str, Any]
Loaded = TypeVar("Loaded")

_UNSUPPORTED = {
    "config_name": "each script has its own",
    "config_path": "hydra.searchpath=[FOLDER] adds a folder of YAML files",
    "config_dir": "hydra.searchpath=[FOLDER] adds a folder of YAML files",
    "experimental_rerun": "the same command again continues a run",
}
"""Flags of Hydra's that would go round the checks made here, and what to do instead."""


def main(
    config_name: str,
    load: Callable[[Resolved], Loaded],
    job: Callable[[Resolved], int | None],
    check: Callable[[Loaded], object] | None = None,
) -> None:
    """Run an application on conf/<config_name>.yaml.

    Nothing is run before all cells of a multirun have been loaded, and then checked.

    Args:
        config_name: The primary configuration.
        load: Builds the objects of one cell from its configuration.
        job: Does the work of one cell; may return an exit code, and the last one that is not 0 counts.
        check: Checks what only a look at the data can tell, before the first cell is run.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors come here instead of being printed by Hydra
    _say_what_takes_long()
    with endings.one_line(USER_ERRORS, _explain):
        arguments = _parse_command_line()
        if not arguments.shell_completion:
            with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
                cells = [_load(config_name, overrides, load, arguments) for overrides in _cells(arguments)]
            for cell in cells:
                if check and cell is not None:
                    check(cell)
        with _kept_out_of_the_way(arguments):
            status = _run(config_name, job)
    if status:
        raise SystemExit(status)


def resolve(node: DictConfig) -> Resolved:
    """The configuration as plain data, with all interpolations resolved."""
    return cast(Resolved, OmegaConf.to_container(node, resolve=True, throw_on_missing=True))


def _say_what_takes_long() -> None:
    """Show what the engine reports of downloads and conversions, which may take minutes."""
    handler = logging.StreamHandler(sys.stdout)
    logger = logging.getLogger("engine")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def _parse_command_line() -> argparse.Namespace:
    """Hydra's own command line, in which flags may stand anywhere. Raises ConfigError."""
    parser = get_args_parser()
    parser.error = endings.Parser.error.__get__(parser)  # type: ignore[method-assign]
    # Options first, or --info would take the one that follows it for its own.
    words = sorted(sys.argv[1:], key=lambda word: word.startswith("-") or "=" not in word)
    arguments = parser.parse_intermixed_args(words)
    for name, instead in _UNSUPPORTED.items():
        if getattr(arguments, name) is not None:
            raise ConfigError(f"--{name.replace('_', '-')}: is not supported; {instead}")
    arguments.shown = bool(arguments.help or arguments.hydra_help or arguments.cfg or arguments.info)
    return arguments


def _cells(arguments: argparse.Namespace) -> list[list[str]]:
    """The overrides of every cell that the command line asks for."""
    if not arguments.multirun:
        return [arguments.overrides]
    parser = OverridesParser.create(GlobalHydra.instance().config_loader())
    overrides = parser.parse_overrides(arguments.overrides)
    try:
        return list(itertools.chain.from_iterable(BasicSweeper.split_arguments(overrides, None)))
    except ValueError as error:
        raise ConfigError(f"cannot sweep over {' '.join(arguments.overrides)} ({error})") from error


def _load(
    config_name: str,
    overrides: list[str],
    load: Callable[[Resolved], Loaded],
    arguments: argparse.Namespace,
) -> Loaded | None:
    """Compose and load one cell; nothing where it is only to be shown and lacks what must be given."""
    try:
        node = _compose(config_name, overrides)
    except ConfigCompositionException as error:
        if not (new := re.search(r"To append to your config use \+(.+)", str(error))):
            raise
        # The schema knows better than Hydra what is wrong with a new name, if anything is.
        _load(config_name, [f"+{line}" if line == new[1] else line for line in overrides], load, arguments)
        raise ConfigError(
            f"{_key(new[1])}: its group takes any name, but a new one needs a plus: +{new[1]}"
        ) from error
    try:
        return load(resolve(node))
    except MissingMandatoryValue:
        if not arguments.shown:
            raise
        return None


def _compose(config_name: str, overrides: list[str]) -> DictConfig:
    """The configuration with overrides. Raises one of USER_ERRORS."""
    try:
        return _strictly_compose(config_name, overrides)
    except USER_ERRORS:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"{mark.name}:{mark.line + 1}: " if mark else ""
        raise ConfigError(f"{place}not valid YAML ({error.problem})") from error
    except Exception as error:  # Hydra meets many a wrong override with an assertion
        wrong = next((line for line in overrides if _is_wrong_by_itself(config_name, line)), None)
        if wrong is None:
            raise ConfigError(f"cannot compose {' '.join(overrides)} ({error})") from error
        key, value = _key(wrong), wrong.partition("=")[2]
        if (CONF / key).is_dir():
            raise ConfigError(f"{key}: must name a file in conf/{key}, got {value}") from error
        raise ConfigError(f"{key}: cannot be set to {value!r} ({error})") from error


def _strictly_compose(config_name: str, overrides: list[str]) -> DictConfig:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # a search path that is not there is no more than that
        return hydra.compose(config_name, overrides=list(overrides))


def _is_wrong_by_itself(config_name: str, override: str) -> bool:
    try:
        _strictly_compose(config_name, [override])
    except Exception as error:
        return not isinstance(error, USER_ERRORS)
    return False


def _key(override: str) -> str:
    return override.partition("=")[0].lstrip("+~")


@contextlib.contextmanager
def _kept_out_of_the_way(arguments: argparse.Namespace) -> Iterator[None]:
    """Hand the command line on to Hydra, which must leave no folder or file of its own behind."""
    flags = [argument for argument in sys.argv[1:] if argument not in arguments.overrides]
    pins = ["hydra.job.chdir=false", "hydra.run.dir=."]
    with tempfile.TemporaryDirectory() if arguments.multirun else contextlib.nullcontext() as scratch:
        if scratch:
            pins += [f"hydra.sweep.dir={scratch}", "hydra.sweep.subdir=."]
        sys.argv[1:] = [*arguments.overrides, *([] if arguments.shown else pins), *flags]
        yield


def _run(config_name: str, job: Callable[[Resolved], int | None]) -> int:
    """Let Hydra run every cell, or show what it was asked to show."""
    started = False
    status = 0

    def run_cell(node: DictConfig) -> None:
        nonlocal started, status
        started = True
        with endings.one_line(USER_ERRORS, _explain):
            status = job(resolve(node)) or status

    try:
        hydra.main(version_base="1.3", config_path=str(CONF), config_name=config_name)(run_cell)()
    except Exception as error:
        if started or isinstance(error, (*USER_ERRORS, BrokenPipeError)):
            raise
        raise ConfigError(f"Hydra cannot do this: {error}") from error
    return status


def _explain(error: BaseException) -> str:
    """What to say of an error, with the option first."""
    message = str(error)
    if isinstance(error, OverrideParseException):
        wrong = re.search(r"\w+ while evaluating .+", message)
        why = wrong[0] if wrong else "it must be option=value, with all brackets and quotes closed"
        return f"cannot parse override {error.override!r}: {why}"
    if isinstance(error, HydraException) and isinstance(error.__cause__, OmegaConfBaseException):
        return _explain(error.__cause__)
    if bad := re.search(r"Could not find '([^']+)'", message):
        group, _, choice = bad[1].rpartition("/")
        options = re.findall(r"^\t(\S+)$", message, re.MULTILINE)
        return f"{group}: there is no {choice!r} in conf/{group}{did_you_mean(choice, options)}"
    if isinstance(error, OmegaConfBaseException):
        what = "must be given" if isinstance(error, MissingMandatoryValue) else message.partition("\n")[0]
        return f"{error.full_key}: {what}" if error.full_key else what
    return message
