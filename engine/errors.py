"""Errors that a person can act on. Each message is one line: what is wrong, where, and the fix.

    ReflexionError
    ├── ConfigError        an option is unknown, has the wrong type or an impossible value
    ├── ModelError         weights, tokenizer or chat template cannot be found, verified or loaded
    ├── ContextFull        a prompt does not fit the model's context (ends the trial, not the sweep)
    ├── PromptError        a prompt pack is missing a template or a template names an unknown variable
    ├── RecordError        a run directory cannot be read, written or continued
    └── ReplayMismatch     a replayed run asks for a call that the recording does not have

Environments raise their own `envs.base.EnvironmentFault`, with the same promise about its message.
"""


class ReflexionError(Exception):
    """Base of all errors that the engine raises on purpose."""


class ConfigError(ReflexionError):
    """An option is unknown, has the wrong type or an impossible value."""


class ModelError(ReflexionError):
    """Weights, tokenizer or chat template cannot be found, verified or loaded."""


class ContextFull(ReflexionError):
    """A prompt does not fit the model's context."""


class PromptError(ReflexionError):
    """A prompt pack lacks a template, or a template names a variable that it is not given."""


class RecordError(ReflexionError):
    """A run directory cannot be read, written or continued."""


class ReplayMismatch(ReflexionError):
    """A replayed run asks for a call that the recording does not have."""
