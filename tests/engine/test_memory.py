import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.memory import Memory
from engine.records import Note


def words(text: str) -> int:
    return len(text.split())


def notes(*texts: str) -> list[Note]:
    return [Note(number, text) for number, text in enumerate(texts, 1)]


def test_the_newest_notes_are_kept_oldest_first() -> None:
    kept = Memory(limit=2).recall(notes("a", "b", "c"), words)
    assert [note.text for note in kept] == ["b", "c"]


def test_no_notes_are_kept_with_limit_zero() -> None:
    assert Memory(limit=0).recall(notes("a", "b"), words) == ()


def test_the_oldest_notes_give_way_to_the_token_budget() -> None:
    kept = Memory(limit=3, max_tokens=5).recall(notes("a a a", "b b", "c c c"), words)
    assert [note.text for note in kept] == ["b b", "c c c"]


def test_a_note_over_the_budget_is_cut_not_lost() -> None:
    (kept,) = Memory(limit=3, max_tokens=4).recall(notes("old", "one two three four five six"), words)
    assert kept.text == "one two three …"
    assert kept.trial == 2


@pytest.mark.parametrize(("options", "word"), [({"limit": -1}, "limit"), ({"max_tokens": 0}, "max_tokens")])
def test_impossible_bounds_are_refused_by_name(options: dict[str, int], word: str) -> None:
    with pytest.raises(ValueError, match=f"^{word}: must be"):
        Memory(**options)


@given(
    st.lists(st.text(alphabet="ab ", min_size=0, max_size=40), max_size=6),
    st.integers(0, 4),
    st.one_of(st.none(), st.integers(1, 12)),
)
def test_bounds_hold_and_the_newest_note_is_never_dropped(
    texts: list[str], limit: int, budget: int | None
) -> None:
    given_notes = notes(*texts)
    kept = Memory(limit=limit, max_tokens=budget).recall(given_notes, words)
    assert len(kept) <= limit
    if budget is not None:
        assert sum(words(note.text) for note in kept) <= budget
    if limit and given_notes:
        assert kept[-1].trial == given_notes[-1].trial
    assert [note.trial for note in kept] == sorted(note.trial for note in kept)
