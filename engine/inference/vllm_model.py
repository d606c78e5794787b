"""A model that vLLM serves in this process.

What vLLM declares unstable (per-request metrics, scheduler statistics) is used in this module alone.
"""

import asyncio
import gc
import itertools
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engine.errors import ModelError
from engine.inference.answers import room, split_reasoning
from engine.inference.base import ModelSpec, ModelStats
from engine.inference.startup import EngineLog
from engine.inference.tokenizer import ChatTokenizer
from engine.records import Choice, Completion, Grammar, Request

if TYPE_CHECKING:
    from vllm import AsyncEngineArgs, RequestOutput, SamplingParams
    from vllm.sampling_params import StructuredOutputsParams
    from vllm.v1.engine.async_llm import AsyncLLM
    from vllm.v1.metrics.loggers import StatLoggerBase

SHUTDOWN_SECONDS = 20.0


class VllmModel:
    """A model that vLLM serves."""

    def __init__(self, tokenizer: ChatTokenizer, spec: ModelSpec) -> None:
        self.log = EngineLog()
        self.context_tokens = tokenizer.context_tokens
        self._tokenizer = tokenizer
        self._spec = spec
        self._meter = _Meter()
        self._numbers = itertools.count()
        self._engine: AsyncLLM | None = None

    def start(self, arguments: "AsyncEngineArgs") -> None:
        """Start the engine's processes and wait until they are ready. Raises whatever vLLM raises."""
        from vllm.v1.engine.async_llm import AsyncLLM

        with self.log.capture():
            self._engine = AsyncLLM.from_engine_args(arguments, stat_loggers=[self._meter.logger_class()])
        self.log.begin()
        logging.getLogger("vllm").setLevel(logging.CRITICAL)  # its errors reach the caller as exceptions

    async def complete(self, request: Request) -> Completion:
        """Answer one request; cancelling the task takes the request out of the batch.

        Raises:
            ContextFull: The prompt leaves too little of the context.
            ModelError: The engine died, or refuses the request.
        """
        from vllm.exceptions import VLLMClientError
        from vllm.inputs import tokens_input
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        started_at, start = time.time(), time.monotonic()
        tokens = self._tokenizer.render(request.prompt)
        max_tokens = room(len(tokens), request.sampling.max_tokens, self._tokenizer.context_tokens)
        output: RequestOutput | None = None
        if self._engine is None:
            raise ModelError("the model has been unloaded")
        try:
            async for output in self._engine.generate(  # noqa: B007 (the last one counts)
                tokens_input(tokens),
                self._parameters(request, max_tokens),
                request_id=str(next(self._numbers)),
                priority=request.priority,
            ):
                pass
        except EngineDeadError as error:
            causes = self.log.causes() or ["it gives no reason"]
            raise ModelError(f"the model's engine died: {causes[0]}") from error
        except VLLMClientError as error:
            raise ModelError(f"vLLM refuses {request.tag}: {error}") from error
        except EngineGenerateError as error:
            raise ModelError(f"vLLM cannot answer {request.tag}: {error.__cause__}") from error
        if output is None or output.outputs[0].finish_reason == "abort":
            raise ModelError(f"vLLM gave up {request.tag}: the engine is stopping")
        return self._completion(request, output, started_at, start)

    def stats(self) -> ModelStats:
        """The model's state after vLLM's last step."""
        return self._meter.stats

    async def forget(self) -> None:
        """Empty the prefix cache. Nothing may be running."""
        if self._engine is not None:
            await self._engine.reset_prefix_cache()

    async def close(self) -> None:
        """Stop the engine; the model cannot be used afterwards."""
        engine, self._engine = self._engine, None
        if engine is not None:
            if (handler := engine.output_handler) is not None:  # left alone, it would log the stop as a crash
                handler.cancel()
                await asyncio.wait((handler,))
            await asyncio.to_thread(engine.shutdown, SHUTDOWN_SECONDS)
            await asyncio.sleep(0)  # its sockets close in this loop's next round
            del engine, handler
            gc.collect()  # vLLM's objects refer to each other, and complain if they are still there at exit
        self.log.close()

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

        class Logger(StatLoggerBase):  # type: ignore[misc]  # vLLM's types are not checked
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
