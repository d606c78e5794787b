"""Renders prompts into a model's own tokens, without torch and without weights.

Tokenizing a 3,000-token prompt costs 8 ms, far more than all else that the host does for a model call. Most
of a prompt was tokenized before, in an earlier step or for another task, so it is cut into pieces after line
breaks and the tokens of each piece are remembered. Tokens never depend on anything across such a cut, which
is checked for each tokenizer when it is loaded; one that fails the check is used without cuts.
"""

import functools
import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import ModelError
from engine.inference.base import ModelSpec, Reasoning
from engine.inference.template import ChatTemplate, read_json
from engine.records import Message, Prompt

if TYPE_CHECKING:
    import tokenizers

REMEMBERED_PIECES = 1 << 16
REMEMBERED_PROMPTS = 512
CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length")
BREAK = "\n"
CUT = re.compile(r"\n(?=[!-~])")
AFTER = "a"  # stands for whatever follows a cut: never whitespace
PROBE = (
    "def f(x):\n    return 'a\n\n\n  b'\n\t\t# ünïcode\n's\n\n12\n345 \n\r\n>>> x\r\ny\n \n[{\"k\": 1}]\n"
    "Thought 1: I need.\nAction: go to shelf 1\n\nObservation: ok!\n...\n文字\nz\n"
)


class ChatTokenizer:
    """A model's tokenizer and chat template.

    Args:
        folder: The model's files.
        spec: The model; its template, options and context override those in the folder.

    Raises:
        ModelError: The tokenizer cannot be read, or max_model_len exceeds what the model was made for.
    """

    def __init__(self, folder: Path, spec: ModelSpec) -> None:
        self._spec = spec
        self._tokenizer = _load(folder, spec)
        self._context = _context_tokens(folder, spec)
        self._template = ChatTemplate(folder, spec)
        self._prefix = self._tokenizer.encode("").ids
        self._special = {
            token.content: number
            for number, token in self._tokenizer.get_added_tokens_decoder().items()
            if token.special
        }
        self._break_tokens = len(self._encode(BREAK))
        self._piece = functools.lru_cache(REMEMBERED_PIECES)(self._encode_piece)
        self._cuts = self._cuts_are_safe()
        self._render = functools.lru_cache(REMEMBERED_PROMPTS)(self._render_anew)

    @property
    def context_tokens(self) -> int:
        """The most tokens that prompt and completion may have together."""
        return self._context

    def count(self, prompt: Prompt) -> int:
        """Tokens of a plain text as it stands, or of chat turns as the template renders them."""
        if isinstance(prompt, str):
            return len(self._tokens(prompt))
        return len(self._render(prompt))

    def render(self, prompt: Prompt) -> list[int]:
        """Tokens that the model is given, with those that it wants at the start of a text.

        Chat turns end with the opening of the assistant's turn, or with its last words so far when the last
        turn is the assistant's own.

        Raises:
            ModelError: The model has no chat template, or its template refuses these turns.
        """
        return list(self._render(prompt))

    def special_token(self, text: str) -> int | None:
        """The number of a special token, which never appears in an answer's text; None for other texts."""
        return self._special.get(text)

    def opens_reasoning(self, prompt: Prompt) -> bool:
        """Whether the rendered prompt ends inside the model's reasoning."""
        reasoning = self._spec.reasoning
        if reasoning is None:
            return False
        if isinstance(prompt, str):
            return _is_open(prompt, reasoning)
        if prompt[-1].role == "assistant":
            return _is_open(prompt[-1].content, reasoning)
        return self._template_opens_reasoning

    @functools.cached_property
    def _template_opens_reasoning(self) -> bool:
        reasoning = self._spec.reasoning
        assert reasoning is not None
        if not reasoning.start:
            return True
        return self._template.render((Message("user", "x"),)).rstrip().endswith(reasoning.start)

    def _render_anew(self, prompt: Prompt) -> tuple[int, ...]:
        if isinstance(prompt, str):
            return (*self._prefix, *self._tokens(prompt))
        return tuple(self._tokens(self._template.render(prompt)))

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def _tokens(self, text: str) -> list[int]:
        """The same as `_encode`, from remembered pieces."""
        if not self._cuts:
            return self._encode(text)
        first, *middle = pieces(text)
        if not middle:
            return list(self._piece(first, True, True))
        last = middle.pop()
        tokens = list(self._piece(first, True, False))
        tokens.extend(itertools.chain.from_iterable(map(self._piece, middle)))
        tokens.extend(self._piece(last, False, True))
        return tokens

    def _encode_piece(self, piece: str, first: bool = False, last: bool = False) -> tuple[int, ...]:
        """Tokens of a piece, as they are with a line break before it and something visible after it."""
        tokens = self._encode(("" if first else BREAK) + piece + ("" if last else AFTER))
        return tuple(tokens[0 if first else self._break_tokens : None if last else -1])

    def _cuts_are_safe(self) -> bool:
        self._cuts = True
        return all(
            self._tokens(text) == self._encode(text) for text in (PROBE, PROBE * 2, " " + PROBE.strip())
        )


def pieces(text: str) -> list[str]:
    """Cut a text after each line break that a visible ASCII character follows."""
    ends = [match.end() for match in CUT.finditer(text)]
    return [text[start:end] for start, end in itertools.pairwise((0, *ends, len(text)))]


def _is_open(text: str, reasoning: Reasoning) -> bool:
    return bool(reasoning.start) and text.rfind(reasoning.start) > text.rfind(reasoning.end)


def _load(folder: Path, spec: ModelSpec) -> "tokenizers.Tokenizer":
    import tokenizers

    file = folder / "tokenizer.json"
    if not file.is_file():
        raise ModelError(f"model.id: {spec.id} has no tokenizer.json")
    try:
        return tokenizers.Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises nothing more precise
        raise ModelError(f"model.id: cannot read {file}: {error}") from error


def _context_tokens(folder: Path, spec: ModelSpec) -> int:
    """The context that was asked for, or the model's own."""
    config = read_json(folder / "config.json")
    config = config.get("text_config", config)
    own = next((int(config[key]) for key in CONTEXT_KEYS if config.get(key)), None)
    asked = spec.max_model_len
    if asked is None:
        if own is None:
            raise ModelError(f"model.max_model_len: must be set, {spec.id} does not say its context")
        return own
    if own is not None and asked > own and not _stretches(config):
        raise ModelError(f"model.max_model_len: must be at most {own}, the context of {spec.id}, got {asked}")
    return asked


def _stretches(config: dict[str, Any]) -> bool:
    """Whether the model's position encoding is scaled, so that its context is longer than it says."""
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    return bool(rope.get("rope_type", rope.get("type", "default")) != "default")
