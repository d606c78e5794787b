"""Runs untrusted Python. Stands alone: nothing else of the project is imported here."""

from envs.sandbox.errors import SandboxFault, SandboxUnavailable
from envs.sandbox.report import Ended, Report, Result
from envs.sandbox.sandbox import Sandbox

__all__ = ["Ended", "Report", "Result", "Sandbox", "SandboxFault", "SandboxUnavailable"]
