"""What the sandbox raises. Each message is one line: what is wrong, and the fix."""


class SandboxUnavailable(Exception):
    """Untrusted code cannot be isolated here, so none is run."""


class SandboxFault(Exception):
    """A jail did not start, although others did: the machine is short of something. Nothing was judged."""
