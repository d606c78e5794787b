"""Turns one GGUF file into an ordinary model folder: `python -m engine.inference.gguf FILE FOLDER`.

It runs as a process of its own so that the memory it takes is gone when it is done.
"""

import sys
from pathlib import Path
from typing import Any


def convert(gguf: Path, folder: Path) -> None:
    """Write weights (bfloat16 safetensors), configuration and tokenizer of `gguf` into `folder`."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    source, name = str(gguf.parent), gguf.name
    tokenizer: Any = AutoTokenizer.from_pretrained(source, gguf_file=name)
    model: Any = AutoModelForCausalLM.from_pretrained(
        source,
        gguf_file=name,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(gguf_file=name, dequantize=True),
    )
    _complete(model, tokenizer)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _complete(model: Any, tokenizer: Any) -> None:
    """Fill in what a GGUF file does not say: the architecture, and where an answer ends."""
    eos, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
    pad = eos if pad is None else pad
    model.config.architectures = [type(model).__name__]
    model.config.eos_token_id = eos
    model.config.pad_token_id = pad
    # No answer contains padding, so a model that begins to write it has ended too.
    model.generation_config.eos_token_id = list(dict.fromkeys((eos, pad)))
    model.generation_config.pad_token_id = pad


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
