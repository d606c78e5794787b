"""Promises of the checkout as a whole: light imports, sound scripts, no ties to one machine."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = [*sorted(ROOT.glob("scripts/*.sh")), ROOT / ".ci/run"]

IMPORT_ALL = """
import importlib, pkgutil, sys

for name in ("conf", "engine", "envs", "scripts"):
    package = importlib.import_module(name)
    if name in ("engine", "envs"):
        for module in pkgutil.walk_packages(package.__path__, name + "."):
            if not module.name.endswith(".__main__"):
                importlib.import_module(module.name)
print(*sorted({"torch", "transformers", "vllm", "datasets", "ray", "alfworld"} & set(sys.modules)))
"""


def test_importing_everything_loads_no_heavy_library() -> None:
    command = [sys.executable, "-W", "error", "-c", IMPORT_ALL]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)

    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_executable_and_parse(script: Path) -> None:
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", script], check=True)


def test_setup_refuses_extras_that_exclude_each_other() -> None:
    result = subprocess.run(
        [ROOT / "scripts/setup.sh", "cpu,gpu"], capture_output=True, text=True, timeout=60
    )

    assert result.returncode != 0
    assert result.stderr == "setup: cpu and gpu exclude each other; choose one\n"


def test_extras_are_there_and_cpu_and_gpu_exclude_each_other() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())

    assert set(settings["project"]["optional-dependencies"]) == {"cpu", "gpu", "alfworld", "ray", "dev"}
    assert [{"extra": "cpu"}, {"extra": "gpu"}] in settings["tool"]["uv"]["conflicts"]


def test_no_file_names_one_machine_or_a_package_registry() -> None:
    tied = re.compile(r"/(?:work|root)/\w|/opt/(?:wheels|pypi)|pypi\.org|pythonhosted\.org")

    found = [
        f"{path}:{number}: {line.strip()}"
        for path in _project_files()
        for number, line in enumerate(_lines(ROOT / path), start=1)
        if tied.search(line)
    ]

    # This file's own pattern is the one line that may look like a registry.
    assert [line for line in found if "re.compile" not in line] == []


def _project_files() -> list[str]:
    """Files that are, or could be, under version control."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [name for name in result.stdout.splitlines() if (ROOT / name).is_file()]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        return []
