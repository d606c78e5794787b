from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from engine.inference import weights
from engine.inference.base import LanguageModel, ModelSpec
from engine.inference.tokenizer import ChatTokenizer
from engine.inference.vllm_backend import VllmBackend
from engine.records import Grammar, Prompt, Request, Sampling, Tag
from tests.engine.inference.models import spec

Ask = Callable[..., Request]


def pytest_configure(config: pytest.Config) -> None:
    """Let vLLM leave its ZeroMQ context to the garbage collector, as it does."""
    config.addinivalue_line("filterwarnings", "ignore:Unclosed context:ResourceWarning")


@pytest.fixture
def ask() -> Ask:
    """Makes requests with the usual options filled in."""

    def make(
        prompt: Prompt = "x",
        sampling: Sampling | None = None,
        tag: Tag | None = None,
        grammar: Grammar | None = None,
        priority: int = 0,
    ) -> Request:
        tag = tag or Tag("t", 1, "actor", 1)
        return Request(prompt, sampling or Sampling(), tag, tag.seed(0), grammar, priority)

    return make


@pytest.fixture(scope="session")
def small() -> ModelSpec:
    """The smallest real model, in float32: there, answers do not depend on what else is in the batch."""
    return spec("smollm2-135m", dtype="float32", max_model_len=1024)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def model(small: ModelSpec) -> AsyncIterator[LanguageModel]:
    """The small model in vLLM, once for all tests: a process can serve only one."""
    async with VllmBackend(kv_cache_memory_bytes=1 << 28).load(small, seed=0) as loaded:
        yield loaded


@pytest.fixture(scope="session")
def tokenizer(small: ModelSpec) -> ChatTokenizer:
    return ChatTokenizer(weights.fetch(small), small)
