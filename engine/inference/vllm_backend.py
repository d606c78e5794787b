"""vLLM inside this process: the same code on a GPU and on a CPU.

vLLM runs one engine per process.
"""

import asyncio
import hashlib
import os
import re
import threading
import warnings
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from engine.errors import ModelError
from engine.inference import weights
from engine.inference.base import LanguageModel, ModelSpec
from engine.inference.orphans import OWNER
from engine.inference.startup import environment
from engine.inference.template import override
from engine.inference.tokenizer import ChatTokenizer
from engine.inference.vllm_model import VllmModel

if TYPE_CHECKING:
    from vllm import AsyncEngineArgs

CPU_DEFAULTS = {
    "max_num_seqs": 64,
    "max_num_batched_tokens": None,
    "kv_cache_memory_bytes": 1 << 30,
    "enforce_eager": True,
    "block_size": 32,
}
GPU_DEFAULTS = {
    "max_num_seqs": 512,
    "max_num_batched_tokens": None,
    "kv_cache_memory_bytes": None,
    "enforce_eager": False,
    "block_size": None,
}
REMEDIES = (
    (
        "out of memory|free memory|cannot allocate",
        "lower backend.gpu_memory_utilization or model.max_model_len",
    ),
    (
        "max seq len|KV cache is needed|cache blocks",
        "raise backend.kv_cache_memory_bytes or lower model.max_model_len",
    ),
)

_engine_slot = threading.Lock()


@dataclass(frozen=True)
class VllmBackend:
    """Serves a model through vLLM's continuous batching. None means: what suits the device.

    Attributes:
        max_num_seqs: Most requests in one batch. CPU 64, GPU 512.
        max_num_batched_tokens: Most tokens of one step, prompts included; None takes vLLM's own.
        gpu_memory_utilization: Share of the GPU's memory for weights and KV cache.
        kv_cache_memory_bytes: Size of the KV cache in bytes. CPU 1 GiB; on a GPU what the share above leaves.
        tensor_parallel_size: GPUs that share the weights.
        enforce_eager: Start without compiling or capturing graphs: slower on a GPU. CPU true, GPU false.
        block_size: Tokens per block of the prefix cache. CPU 32; on a GPU vLLM's own.
        enable_prefix_caching: Whether prompts that begin alike share their work.
        scheduling_policy: "priority" serves the oldest episode first, "fcfs" the oldest request.
        quantization: vLLM's name of a quantization; None follows the checkpoint.
        kv_cache_dtype: Type of the KV cache; "auto" follows the model.
        cpu_threads: OpenMP threads on a CPU; None leaves one core for everything else.
        log_level: vLLM's own log level. An engine that fails has its first error quoted; the rest is dropped.
    """

    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    gpu_memory_utilization: float = 0.9
    kv_cache_memory_bytes: int | None = None
    tensor_parallel_size: int = 1
    enforce_eager: bool | None = None
    block_size: int | None = None
    enable_prefix_caching: bool = True
    scheduling_policy: Literal["priority", "fcfs"] = "priority"
    quantization: str | None = None
    kv_cache_dtype: str = "auto"
    cpu_threads: int | None = None
    log_level: str = "ERROR"

    def __post_init__(self) -> None:
        for name in (
            "max_num_seqs",
            "max_num_batched_tokens",
            "kv_cache_memory_bytes",
            "block_size",
            "cpu_threads",
        ):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}: must be at least 1, got {value}")
        if self.tensor_parallel_size < 1:
            raise ValueError(f"tensor_parallel_size: must be at least 1, got {self.tensor_parallel_size}")
        if not 0 < self.gpu_memory_utilization <= 1:
            raise ValueError(
                f"gpu_memory_utilization: must be above 0 and at most 1, got {self.gpu_memory_utilization}"
            )
        if self.scheduling_policy not in ("priority", "fcfs"):
            raise ValueError(f"scheduling_policy: must be priority or fcfs, got {self.scheduling_policy}")

    def label(self, spec: ModelSpec) -> str:
        """The model's name."""
        return spec.name

    def tokenizer(self, spec: ModelSpec) -> ChatTokenizer:
        """The model's tokenizer, without its weights. Raises ModelError."""
        return ChatTokenizer(weights.fetch(spec, weights=False), spec)

    def fingerprint(self, spec: ModelSpec) -> str:
        """Which weights these are. Raises ModelError."""
        found = weights.fingerprint(spec)
        if spec.chat_template is None:
            return found
        return f"{found}+template-sha256:{hashlib.sha256(override(spec).encode()).hexdigest()}"

    def load(self, spec: ModelSpec, seed: int = 0) -> AbstractAsyncContextManager[LanguageModel]:
        """Start the engine; leaving the context stops it and frees its memory. Raises ModelError."""
        return self._serve(spec, seed)

    @asynccontextmanager
    async def _serve(self, spec: ModelSpec, seed: int) -> AsyncIterator[LanguageModel]:
        folder = await asyncio.to_thread(weights.fetch, spec)
        tokenizer = ChatTokenizer(folder, spec)
        if not _engine_slot.acquire(blocking=False):
            raise ModelError(
                "backend: this process serves a model through vLLM already, and it can serve only one"
            )
        model = VllmModel(tokenizer, spec)
        try:
            await asyncio.to_thread(self._start, model, folder, spec, seed)
            yield model
        finally:
            await model.close()
            _engine_slot.release()

    def _start(self, model: VllmModel, folder: Path, spec: ModelSpec, seed: int) -> None:
        try:
            with environment(self._environment()), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # other people's, while they are imported
                model.start(self._arguments(folder, spec, model.context_tokens, seed))
        except ImportError as error:
            raise ModelError(
                f"backend: vLLM cannot be imported ({error}); install the extra cpu or gpu"
            ) from error
        except Exception as error:
            cause = _advice(model.log.causes() or [str(error)])
            raise ModelError(f"backend: vLLM does not start: {cause}") from error

    def _environment(self) -> dict[str, str]:
        threads = self.cpu_threads or max(1, len(os.sched_getaffinity(0)) - 1)
        return {
            "VLLM_LOGGING_LEVEL": self.log_level,
            "VLLM_LOGGING_STREAM": "ext://sys.stderr",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "VLLM_WORKER_MULTIPROC_METHOD": "spawn",  # forking a process with threads can hang it
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # bound, two engines share one core
            "OMP_NUM_THREADS": str(threads),
            "TOKENIZERS_PARALLELISM": "false",
            OWNER: str(os.getpid()),
        }

    def _arguments(self, folder: Path, spec: ModelSpec, context_tokens: int, seed: int) -> "AsyncEngineArgs":
        """The options as vLLM's, with what suits the device in place of None."""
        from vllm import AsyncEngineArgs
        from vllm.platforms import current_platform

        cpu = current_platform.is_cpu()
        default = CPU_DEFAULTS if cpu else GPU_DEFAULTS
        chosen = {name: getattr(self, name) for name in default if getattr(self, name) is not None}
        optional = {**default, **chosen}
        return AsyncEngineArgs(
            model=str(folder),
            served_model_name=spec.name,
            dtype=spec.dtype,
            max_model_len=context_tokens,
            seed=seed,
            gpu_memory_utilization=self.gpu_memory_utilization,
            tensor_parallel_size=self.tensor_parallel_size,
            enable_prefix_caching=self.enable_prefix_caching,
            scheduling_policy=self.scheduling_policy,
            quantization=self.quantization,
            kv_cache_dtype=self.kv_cache_dtype,
            disable_log_stats=True,  # vLLM's own loggers; ours is added beside them
            use_tqdm_on_load=False,
            # Splitting a prompt rewinds its request's random generator, which a CPU generator cannot do:
            # the engine dies of it.
            enable_chunked_prefill=False if cpu else None,
            **{name: value for name, value in optional.items() if value is not None},
        )


def _advice(causes: list[str]) -> str:
    """The first cause in one line, with the option that helps where it is known."""
    for words, option in REMEDIES:
        if any(re.search(words, cause, re.IGNORECASE) for cause in causes):
            return f"{causes[0].partition('. ')[0]} ({option})"
    return causes[0]
