"""What every backend does around a model: fit an answer into the context, and take reasoning out of it."""

from engine.errors import ContextFull
from engine.inference.base import Reasoning

LEAST_TOKENS = 16


def room(prompt_tokens: int, max_tokens: int, context_tokens: int) -> int:
    """How many tokens an answer may have.

    An answer that no longer fits as a whole may be cut, to a quarter of what was asked for but not below 16
    tokens: most answers are far shorter than their limit. Less than that is not worth a call.

    Args:
        prompt_tokens: Tokens of the rendered prompt.
        max_tokens: The most that the caller wants.
        context_tokens: The most that prompt and answer may have together.

    Raises:
        ContextFull: Not even the least answer fits.
    """
    left = context_tokens - prompt_tokens
    least = min(max_tokens, max(LEAST_TOKENS, max_tokens // 4))
    if left < least:
        raise ContextFull(
            f"prompt of {prompt_tokens} tokens leaves {max(left, 0)} of the context of {context_tokens}, "
            f"fewer than the {least} that an answer needs"
        )
    return min(max_tokens, left)


def split_reasoning(text: str, reasoning: Reasoning | None, opened: bool) -> tuple[str, str]:
    """Take the reasoning off the front of an answer.

    Args:
        text: What the model wrote.
        reasoning: How the model marks its reasoning; None for models that do not think aloud.
        opened: Whether the prompt has opened the reasoning already.

    Returns:
        Reasoning and answer, without the marks. Reasoning that never ends leaves an empty answer.
    """
    if reasoning is None:
        return "", text
    begun = text.lstrip()
    if reasoning.start and begun.startswith(reasoning.start):
        opened = True
        text = begun.removeprefix(reasoning.start)
    thought, end, answer = text.partition(reasoning.end)
    if end:
        return thought.strip(), answer.lstrip("\n")
    return (text.strip(), "") if opened else ("", text)
