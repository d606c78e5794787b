"""The run on disk: one SQLite file in WAL mode, one writer. The only package that knows SQL."""

from engine.store.reader import CallRow, EpisodeRow, Record, TrialRow, read, recorded_calls
from engine.store.writer import Progress, Store

__all__ = ["CallRow", "EpisodeRow", "Progress", "Record", "Store", "TrialRow", "read", "recorded_calls"]
