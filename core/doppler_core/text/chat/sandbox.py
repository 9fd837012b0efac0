"""Runs a template that came with a checkpoint. It knows nothing of messages and tokens."""

import contextlib
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from doppler_core.errors import ChatTemplateError
from doppler_core.text.chat.bounded_jinja import BoundedEnvironment, Refusal


class Sandbox:
    """A compiled template. Any thread may render; one at a time does."""

    def __init__(self, path: Path, text: str) -> None:
        """Compile `text`, which stands in the file `path`; raises ChatTemplateError."""
        self._path = path
        self._lock = threading.Lock()
        self._environment = BoundedEnvironment()
        if not text:
            raise ChatTemplateError(f"{path}: the template is empty, or larger than any template is")
        with self._blamed("can't be read"):
            self._template = self._environment.from_string(text)

    def render(self, variables: Mapping[str, Any]) -> str:
        """The template's text; raises ChatTemplateError, with the template's own words where it refuses."""
        with self._lock, self._blamed("fails"):
            self._environment.begin()
            return self._environment.joined(self._template.generate(**variables))

    @contextlib.contextmanager
    def _blamed(self, how: str) -> Iterator[None]:
        """Turn whatever a template can raise into a ChatTemplateError."""
        try:
            yield
        except Refusal as refusal:
            raise ChatTemplateError(
                f"{self._path}: the template refuses this conversation: {str(refusal)[:500]}"
            ) from None
        except (Exception, RecursionError) as error:
            line = getattr(error, "lineno", None)
            where = f", line {line}" if line else ""
            raise ChatTemplateError(
                f"{self._path}{where}: the template {how} ({type(error).__name__}: {str(error)[:500]}); take the "
                "publisher's newest, or name a chat_format"
            ) from error
