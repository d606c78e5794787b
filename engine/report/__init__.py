"""Tables and reports, made from a run's record alone."""
