"""Gates: whether a trial is good enough to stop."""
