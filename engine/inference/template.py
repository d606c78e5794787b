"""Chat templates: the tokenizer's own or a file of ours, rendered to text."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from engine.errors import ModelError
from engine.inference.base import ModelSpec
from engine.records import Message

if TYPE_CHECKING:
    import jinja2
    from jinja2.parser import Parser

TEMPLATES = Path(__file__).parents[2] / "conf" / "model" / "templates"
CONTINUED = "\x02continued\x03"
FIXED_DAY = "26 Jul 2024"  # the day that Llama's own template falls back to


class ChatTemplate:
    """Turns chat messages into the text that a model was trained on.

    A missing template is an error only when chat turns are rendered: base models are given plain text.

    Args:
        folder: The model's files.
        spec: The model; `chat_template` replaces the template in the folder.

    Raises:
        ModelError: `chat_template` names a file that does not exist, or the template is not valid Jinja.
    """

    def __init__(self, folder: Path, spec: ModelSpec) -> None:
        self._spec = spec
        self._variables = {**_special_tokens(folder), **spec.template_options}
        source = override(spec) if spec.chat_template else _own(folder)
        self._template = None if source is None else _compile(source, spec)

    def render(self, messages: tuple[Message, ...]) -> str:
        """The conversation as text, up to where the model goes on.

        Raises:
            ModelError: There is no template, or it refuses these messages.
        """
        if self._template is None:
            raise ModelError(
                f"model.chat_template: must be set, {self._spec.id} has no chat template of its own"
            )
        turns = [{"role": message.role, "content": message.content} for message in messages]
        continued = turns[-1]["role"] == "assistant"
        if continued:
            turns[-1]["content"] = CONTINUED
        try:
            text = self._template.render(
                messages=turns, add_generation_prompt=not continued, **self._variables
            )
        except Exception as error:  # a template may fail in any way
            raise ModelError(
                f"model.chat_template: the template of {self._spec.name} fails: {error}"
            ) from error
        if not continued:
            return text
        before, mark, _ = text.rpartition(CONTINUED)
        if not mark:
            raise ModelError(
                f"model.chat_template: the template of {self._spec.name} drops the assistant's last turn"
            )
        return before + messages[-1].content


def override(spec: ModelSpec) -> str:
    """The template that replaces the model's own. Raises ModelError when there is no such file."""
    path = TEMPLATES / str(spec.chat_template)
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        raise ModelError(f"model.chat_template: no file {path}") from None


def _own(folder: Path) -> str | None:
    """The template that came with the tokenizer, wherever its version of the layout puts it."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    for name in ("tokenizer_config.json", "chat_template.json"):
        template = read_json(folder / name).get("chat_template")
        if isinstance(template, list):
            template = next((entry["template"] for entry in template if entry["name"] == "default"), None)
        if isinstance(template, str):
            return template
    return None


def _special_tokens(folder: Path) -> dict[str, str]:
    """bos_token, eos_token and their like, as templates expect them."""
    found: dict[str, str] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        for key, value in read_json(folder / name).items():
            text = value.get("content") if isinstance(value, dict) else value
            if key.endswith("_token") and isinstance(text, str):
                found[key] = text
    return found


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty when there is no such file. Raises ModelError when it is damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ModelError(f"model.id: {path} is not valid JSON: {error}") from error
    return content if isinstance(content, dict) else {}


def _compile(source: str, spec: ModelSpec) -> "jinja2.Template":
    import jinja2

    try:
        return _environment().from_string(source)
    except jinja2.TemplateSyntaxError as error:
        raise ModelError(
            f"model.chat_template: line {error.lineno} of {spec.name}'s template: {error}"
        ) from error


@functools.cache
def _environment() -> "jinja2.Environment":
    """What templates written for transformers rely on."""
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """{% generation %}…{% endgeneration %} marks text for training; here it means its content."""

        tags = {"generation"}  # noqa: RUF012 (the base class says so)

        def parse(self, parser: "Parser") -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    helpers: dict[str, Callable[..., Any]] = {"raise_exception": _refuse, "strftime_now": _fixed_day}
    environment.globals.update(helpers)
    return environment


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> NoReturn:
    import jinja2

    raise jinja2.TemplateError(message)


def _fixed_day(_format: str) -> str:
    """A prompt must not depend on the day on which it is rendered."""
    return FIXED_DAY
