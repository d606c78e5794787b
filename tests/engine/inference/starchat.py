"""A tiny random model of StarChat's kind in vLLM, in a process of its own: prints what it found as JSON."""

import asyncio
import json
import multiprocessing
import os
import sys
import warnings
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.inference.base import ModelSpec
from engine.inference.tokenizer import ChatTokenizer
from engine.inference.vllm_backend import VllmBackend
from engine.records import Completion, Message, Request, Sampling, Tag
from tests.engine.inference.models import spec

SPECIAL = ["<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]
PROMPT = (Message("user", "hello world"),)
REQUEST = Request(PROMPT, Sampling(max_tokens=12), Tag("t", 1, "actor"), 0)
BACKEND = VllmBackend(max_num_seqs=4, kv_cache_memory_bytes=1 << 26)


def build(folder: Path) -> Any:
    """Write a random GPTBigCode model with StarChat's special tokens, and return it."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import AutoModelForCausalLM, GPTBigCodeConfig

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(["hello world, this is a text"] * 9, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    torch.manual_seed(0)
    config = GPTBigCodeConfig(
        vocab_size=tokenizer.get_vocab_size(),
        n_positions=512,
        n_embd=256,
        n_layer=2,
        n_head=4,
        bos_token_id=0,
        eos_token_id=0,
        initializer_range=0.5,
    )
    model: Any = AutoModelForCausalLM.from_config(config)
    model.save_pretrained(folder)
    return model.eval()


async def main(folder: Path) -> None:
    """Ask for too small a cache, compare with transformers, load again, stop at <|end|>, lose the engine."""
    import tokenizers

    starchat = spec("starchat-beta", id=str(folder), dtype="float32", max_model_len=512)
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reference = build(folder)
    tokens = ChatTokenizer(folder, starchat).render(PROMPT)
    vocabulary = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    report: dict[str, Any] = {
        "prompt": vocabulary.decode(tokens, skip_special_tokens=False),
        "transformers": vocabulary.decode(_greedy(reference, tokens, 12)),
        "too_small": await _error(_answer(replace(BACKEND, kv_cache_memory_bytes=1 << 12), starchat)),
        "vllm": (await _answer(BACKEND, starchat)).text,
    }
    _make_it_end(reference, vocabulary.token_to_id("<|end|>"))
    reference.save_pretrained(folder)
    async with BACKEND.load(starchat, seed=0) as model:
        answer = await model.complete(REQUEST)
        report["stopped"] = [answer.text, answer.finish_reason]
        for process in multiprocessing.active_children():
            process.kill()
        report["death"] = await _error(model.complete(REQUEST))
    print(json.dumps(report))


async def _answer(backend: VllmBackend, starchat: ModelSpec) -> Completion:
    async with backend.load(starchat, seed=0) as model:
        return await model.complete(REQUEST)


async def _error(call: Awaitable[Completion]) -> str:
    try:
        await call
    except ModelError as error:
        return str(error)
    return "no error"


def _make_it_end(model: Any, token: int | None) -> None:
    """Make the model say one token whatever it reads."""
    import torch

    with torch.no_grad():
        last = model.transformer.ln_f
        last.weight.zero_()
        last.bias.copy_(model.transformer.wte.weight[token] * 10)


def _greedy(model: Any, tokens: list[int], count: int) -> list[int]:
    import torch

    with torch.no_grad():
        out = model.generate(
            torch.tensor([tokens]), max_new_tokens=count, do_sample=False, pad_token_id=0, eos_token_id=None
        )
    return [int(token) for token in out[0][len(tokens) :]]


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
