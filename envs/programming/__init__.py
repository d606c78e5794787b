"""Programming problems, judged by running the program in the sandbox."""

from envs.programming.environment import ProgrammingEnv, ProgrammingSession

__all__ = ["ProgrammingEnv", "ProgrammingSession"]
