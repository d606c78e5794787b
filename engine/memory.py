"""Bounded episodic memory: which notes the next trial gets to read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.records import Note

_CUT = " …"


@dataclass(frozen=True, slots=True)
class Memory:
    """Keeps the newest notes, within a number and a token budget (paper, section 3: 1 to 3 notes).

    Attributes:
        limit: Most notes kept; 0 keeps none.
        max_tokens: Most tokens that the kept notes may have together, in the model's own tokens;
            None sets no budget. The oldest notes go first; a newest note that is too long by itself is cut.
    """

    limit: int = 3
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.limit < 0:
            raise ValueError(f"limit: must be 0 or more, got {self.limit}")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ValueError(f"max_tokens: must be 1 or more, or null for no budget, got {self.max_tokens}")

    def recall(self, notes: Sequence[Note], count: Callable[[str], int]) -> tuple[Note, ...]:
        """The notes that the next trial reads, oldest first; `count` gives the tokens of a text."""
        newest = list(notes)[len(notes) - min(self.limit, len(notes)) :]
        if self.max_tokens is None or not newest:
            return tuple(newest)
        kept = [_shorten(newest.pop(), self.max_tokens, count)]
        left = self.max_tokens - count(kept[0].text)
        while newest and (tokens := count(newest[-1].text)) <= left:
            kept.insert(0, newest.pop())
            left -= tokens
        return tuple(kept)


def _shorten(note: Note, budget: int, count: Callable[[str], int]) -> Note:
    """The note itself if it fits, else as many of its first words as do."""
    if count(note.text) <= budget:
        return note
    words = note.text.split(" ")
    low, high = 0, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        if count(" ".join(words[:middle]) + _CUT) <= budget:
            low = middle
        else:
            high = middle - 1
    return replace(note, text=" ".join(words[:low]) + _CUT if low else "")
