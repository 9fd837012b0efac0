"""What these tests share: a model that follows a script, and command lines run in this process."""

import io
import json
from typing import Any

import pytest

from doppler_plugins.cli import program
from tests.scripted_generator import ScriptedGenerator


class Done:
    """What a command line gave."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ScriptedGenerator:
    made = ScriptedGenerator()
    monkeypatch.setattr("doppler_plugins.opening.open_engine", made.open_engine)
    return made


@pytest.fixture
def run(script: ScriptedGenerator, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command line in this process."""

    def call(*arguments: object) -> Done:
        capsys.readouterr()
        code = program.run([str(argument) for argument in arguments])
        return Done(code, *capsys.readouterr())

    return call


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give bytes on a stdin that is no terminal."""
    return lambda data: monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.fixture
def typing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let somebody type lines at a terminal; None is Ctrl-C, and after the last line comes Ctrl-D."""

    def type_(*lines: str | None) -> None:
        left = list(lines)

        def read(prompt: str = "") -> str:
            if not left:
                raise EOFError
            line = left.pop(0)
            if line is None:
                raise KeyboardInterrupt
            return line

        monkeypatch.setattr("sys.stdin.isatty", lambda: True)
        monkeypatch.setattr("builtins.input", read)

    return type_
