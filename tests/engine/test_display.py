from collections import Counter

from rich.console import Console

from engine.display import line, panel
from engine.inference.base import ModelStats
from engine.profiling.tally import Snapshot

NOW = Snapshot(
    elapsed_s=3725.0,
    episodes=164,
    over=40,
    under_way=64,
    errors=2,
    played=Counter({1: 100, 2: 30}),
    passed=Counter({1: 35, 2: 3}),
    correct=Counter({1: 60, 2: 12}),
    model=ModelStats(running=58, waiting=6, kv_usage=0.41, preemptions=3),
    tokens_per_s=1234.5,
    cache_hit_rate=0.873,
    left_s=None,
)
FACTS = ("58 running, 6 waiting", "1,234 tokens/s", "87% hits", "KV 41% used", "3 thrown out", "2 errors")


def test_a_line_says_everything_that_matters() -> None:
    said = line(NOW)
    for fact in (
        *FACTS,
        "40/164 episodes",
        "played 100+30",
        "passed 35+3",
        "solved 60+12",
        "1:02:05 elapsed",
    ):
        assert fact in said
    assert "time left unknown" in said
    assert "\n" not in said


def test_the_panel_says_the_same() -> None:
    console = Console(width=140, record=True)
    console.print(panel(NOW))
    said = " ".join(console.export_text().split())
    for fact in (*FACTS, "40 of 164 episodes", "64 under way", "played 100 30", "solved 60 12"):
        assert fact in said


def test_a_sweep_that_has_just_begun_can_be_shown() -> None:
    empty: Counter[int] = Counter()
    begun = Snapshot(0.0, 3, 0, 0, 0, empty, empty, empty, ModelStats(), 0.0, 0.0, None)
    assert line(begun).startswith("0/3 episodes · played 0")
    console = Console(record=True)
    console.print(panel(begun))
    assert "no trial is over yet" in console.export_text()
