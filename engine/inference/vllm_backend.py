"""vLLM inside this process: the same code on a GPU and on a CPU.

Everything that vLLM declares unstable (per-request metrics, scheduler statistics) is used in this module alone.
vLLM runs one engine per process.
"""

import asyncio
import gc
import itertools
import os
import re
import threading
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from engine.errors import ModelError
from engine.inference import weights
from engine.inference.answers import room, split_reasoning
from engine.inference.base import LanguageModel, ModelSpec, ModelStats
from engine.inference.startup import EngineLog, environment
from engine.inference.tokenizer import ChatTokenizer
from engine.records import Choice, Completion, Grammar, Request

if TYPE_CHECKING:
    from vllm import AsyncEngineArgs, RequestOutput, SamplingParams
    from vllm.sampling_params import StructuredOutputsParams
    from vllm.v1.engine.async_llm import AsyncLLM
    from vllm.v1.metrics.loggers import StatLoggerBase

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
    ("out of memory|free memory|cannot allocate", "lower backend.gpu_memory_utilization or model.max_model_len"),
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
        log_level: vLLM's own log level. Its log is shown when a start fails, and otherwise dropped.
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
        for name in ("max_num_seqs", "max_num_batched_tokens", "kv_cache_memory_bytes", "block_size", "cpu_threads"):
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

    def tokenizer(self, spec: ModelSpec) -> ChatTokenizer:
        """The model's tokenizer, without its weights. Raises ModelError."""
        return ChatTokenizer(weights.fetch(spec, weights=False), spec)

    def fingerprint(self, spec: ModelSpec) -> str:
        """Which weights these are. Raises ModelError."""
        return weights.fingerprint(spec)

    def load(self, spec: ModelSpec, seed: int = 0) -> AbstractAsyncContextManager[LanguageModel]:
        """Start the engine; leaving the context stops it and frees its memory. Raises ModelError."""
        return self._serve(spec, seed)

    @asynccontextmanager
    async def _serve(self, spec: ModelSpec, seed: int) -> AsyncIterator[LanguageModel]:
        folder = await asyncio.to_thread(weights.fetch, spec)
        tokenizer = ChatTokenizer(folder, spec)
        if not _engine_slot.acquire(blocking=False):
            raise ModelError("backend: this process serves a model through vLLM already, and it can serve only one")
        meter, log = _Meter(), EngineLog()
        try:
            engine = await asyncio.to_thread(self._start, folder, spec, tokenizer.context_tokens, seed, meter, log)
            model = VllmModel(engine, tokenizer, spec, meter, log)
            del engine
            try:
                yield model
            finally:
                await model.close()
        finally:
            log.close()
            _engine_slot.release()

    def _start(
        self, folder: Path, spec: ModelSpec, context_tokens: int, seed: int, meter: "_Meter", log: EngineLog
    ) -> "AsyncLLM":
        try:
            with log.capture(), environment(self._environment()):
                from vllm.v1.engine.async_llm import AsyncLLM

                arguments = self._arguments(folder, spec, context_tokens, seed)
                return AsyncLLM.from_engine_args(arguments, stat_loggers=[meter.logger_class()])
        except ImportError as error:
            raise ModelError(f"backend: vLLM cannot be imported ({error}); install the extra cpu or gpu") from error
        except Exception as error:
            raise ModelError(f"backend: vLLM does not start: {_advice(log.causes() or [str(error)])}") from error

    def _environment(self) -> dict[str, str]:
        threads = self.cpu_threads or max(1, len(os.sched_getaffinity(0)) - 1)
        return {
            "VLLM_LOGGING_LEVEL": self.log_level,
            "VLLM_LOGGING_STREAM": "ext://sys.stderr",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "VLLM_WORKER_MULTIPROC_METHOD": "spawn",  # forking a process with threads can hang it
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # two engines on one machine would be bound to the same cores
            "OMP_NUM_THREADS": str(threads),
            "TOKENIZERS_PARALLELISM": "false",
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
            **{name: value for name, value in optional.items() if value is not None},
        )


class VllmModel:
    """A model that vLLM serves."""

    def __init__(
        self, engine: "AsyncLLM", tokenizer: ChatTokenizer, spec: ModelSpec, meter: "_Meter", log: EngineLog
    ) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._spec = spec
        self._meter = meter
        self._log = log
        self._numbers = itertools.count()

    async def complete(self, request: Request) -> Completion:
        """Answer one request; cancelling the task takes the request out of the batch.

        Raises:
            ContextFull: The prompt leaves too little of the context.
            ModelError: The engine died, or refuses the request.
        """
        from vllm.inputs import tokens_input
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        started_at, start = time.time(), time.monotonic()
        tokens = self._tokenizer.render(request.prompt)
        max_tokens = room(len(tokens), request.sampling.max_tokens, self._tokenizer.context_tokens)
        output: RequestOutput | None = None
        try:
            async for output in self._engine.generate(
                tokens_input(tokens),
                self._parameters(request, max_tokens),
                request_id=str(next(self._numbers)),
                priority=request.priority,
            ):
                pass
        except EngineDeadError as error:
            causes = self._log.causes() or ["it gives no reason"]
            raise ModelError(f"the model's engine died: {causes[0]}") from error
        except EngineGenerateError as error:
            raise ModelError(f"vLLM cannot answer {request.tag}: {error.__cause__}") from error
        if output is None or output.outputs[0].finish_reason == "abort":
            raise ModelError(f"vLLM gave up {request.tag}: the engine is stopping")
        return self._completion(request, output, started_at, start)

    def stats(self) -> ModelStats:
        """The model's state after vLLM's last step."""
        return self._meter.stats

    async def close(self) -> None:
        """Stop the engine; the model cannot be used afterwards."""
        engine = self._engine
        del self._engine
        if (handler := engine.output_handler) is not None:  # left alone, it would log the stop as a crash
            handler.cancel()
            await asyncio.wait((handler,))
        await asyncio.to_thread(engine.shutdown)
        del engine, handler
        gc.collect()  # vLLM's objects refer to each other, and fail when they go after the interpreter's modules

    async def forget(self) -> None:
        """Empty the prefix cache; no request may be under way."""
        await self._engine.reset_prefix_cache()

    def _parameters(self, request: Request, max_tokens: int) -> "SamplingParams":
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        sampling, reasoning = request.sampling, self._spec.reasoning
        stops = (*sampling.stop, *self._spec.stop)
        special = {stop: self._tokenizer.special_token(stop) for stop in stops}
        marks = (reasoning.start, reasoning.end) if reasoning else ()
        return SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_tokens=max_tokens,
            seed=request.seed,
            stop=[stop for stop, token in special.items() if token is None],
            stop_token_ids=[token for token in special.values() if token is not None],
            structured_outputs=_structure(request.grammar),
            skip_special_tokens=all(self._tokenizer.special_token(mark) is None for mark in marks),
            output_kind=RequestOutputKind.FINAL_ONLY,
        )

    def _completion(
        self, request: Request, output: "RequestOutput", started_at: float, start: float
    ) -> Completion:
        answer, metrics = output.outputs[0], output.metrics
        reasoning, text = "", answer.text
        if request.grammar is None:
            opened = self._tokenizer.opens_reasoning(request.prompt)
            reasoning, text = split_reasoning(text, self._spec.reasoning, opened)
        # The engine's clock is this machine's monotonic clock, too.
        assert metrics is not None
        return Completion(
            text=text,
            reasoning=reasoning,
            finish_reason="length" if answer.finish_reason == "length" else "stop",
            prompt_tokens=len(output.prompt_token_ids or ()),
            cached_tokens=output.num_cached_tokens or 0,
            generated_tokens=len(answer.token_ids),
            started_at=started_at,
            queued_s=metrics.scheduled_ts - start,
            first_token_s=metrics.first_token_ts - start,
            total_s=metrics.last_token_ts - start,
        )


class _Meter:
    """Keeps the scheduler's last statistics."""

    def __init__(self) -> None:
        self.stats = ModelStats()

    def logger_class(self) -> "type[StatLoggerBase]":
        """A vLLM statistics logger that reports to this meter."""
        from vllm.v1.metrics.loggers import StatLoggerBase

        meter = self

        class Logger(StatLoggerBase):
            def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
                """Nothing to set up."""

            def record(
                self,
                scheduler_stats: Any,
                iteration_stats: Any,
                mm_cache_stats: Any = None,
                engine_idx: int = 0,
            ) -> None:
                """After each step."""
                meter.record(scheduler_stats, iteration_stats)

            def log_engine_initialized(self) -> None:
                """Nothing to say."""

        return Logger

    def record(self, scheduler: Any, iteration: Any) -> None:
        """Take in what one step reports; either part may be missing."""
        preemptions = self.stats.preemptions + (iteration.num_preempted_reqs if iteration else 0)
        if scheduler is None:
            self.stats = replace(self.stats, preemptions=preemptions)
            return
        self.stats = ModelStats(
            running=scheduler.num_running_reqs,
            waiting=scheduler.num_waiting_reqs,
            kv_usage=scheduler.kv_cache_usage,
            preemptions=preemptions,
        )


def _structure(grammar: Grammar | None) -> "StructuredOutputsParams | None":
    from vllm.sampling_params import StructuredOutputsParams

    if grammar is None:
        return None
    if isinstance(grammar, Choice):
        return StructuredOutputsParams(choice=list(grammar.options))
    return StructuredOutputsParams(regex=grammar.pattern)


def _advice(causes: list[str]) -> str:
    """The first cause in one line, with the option that helps where it is known."""
    for words, option in REMEDIES:
        if any(re.search(words, cause, re.IGNORECASE) for cause in causes):
            return f"{causes[0]} ({option})"
    return causes[0]
