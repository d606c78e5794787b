"""What a person runs: sweeps, reports, benchmarks, set-up and checks."""
