"""A run of canvases as one page of HTML that replays it: nothing is fetched, nothing in a token or a text can run.

Takes canvases and texts; gives the page. The template's script reads the run as JSON and shows it as text only; a
policy in the page's head lets that one script and that one style sheet in, by their hashes.
"""

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from doppler_core.errors import InputError
from doppler_plugins.cli.answer import summary
from doppler_plugins.cli.canvas_view import Naming, naming, spots

if TYPE_CHECKING:
    from doppler_core.engine.engine import Engine
    from doppler_core.engine.request import Canvas, Delta

_MARK = re.compile(r"\{\{(\w+)\}\}")
_IN_SCRIPT = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"}  # what could end a script, or begin another


def check_page_path(path: Path) -> None:
    """InputError for a page that could not be written, before the model runs."""
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}: make it, or give a path in another one")


@contextmanager
def replayable(
    deltas: Iterable["Delta"], path: Path, engine: "Engine", prompt: str
) -> Iterator[Iterable["Delta"]]:
    """The deltas of a run to be read on; afterwards, however that ended, the page of the canvases among them."""
    canvases: list[Canvas] = []
    texts: list[str] = []
    ending = "stopped before its end"

    def note(delta: "Delta") -> "Delta":
        nonlocal ending
        texts.append(delta.text)
        if delta.canvas is not None:
            canvases.append(delta.canvas)
        if delta.finish_reason is not None:
            ending = summary(delta, engine.capabilities.context_length)
        return delta

    try:
        yield map(note, deltas)
    finally:
        if canvases:
            title, name = f"{engine.model_id} on {engine.device}", naming(engine.tokenizer)
            _write(path, page(title, ending, prompt, "".join(texts), canvases, name))
            click.echo(f"{path}: {len(canvases)} steps to replay", err=True)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"{path}: the page can't be written ({error.strerror or error})") from None


def page(title: str, facts: str, prompt: str, answer: str, canvases: Sequence["Canvas"], name: Naming) -> str:
    """The whole page. facts: what the run took, in a line."""
    template = _template()
    texts = {"title": title, "prompt": prompt, "answer": answer}
    run = json.dumps({"facts": facts, **_frames(canvases, name)}, separators=(",", ":"))
    parts = {mark: html.escape(text) for mark, text in texts.items()}
    parts |= {"policy": _policy(template), "run": run.translate(_IN_SCRIPT)}
    return _MARK.sub(lambda mark: parts[mark[1]], template)


def _frames(canvases: Sequence["Canvas"], name: Naming) -> dict[str, Any]:
    """What the script shows. names: of tokens, each once; shown, likeliest: places among them; shades: first letters;
    entropies: hundredths of a nat."""
    names: dict[str, int] = {}

    def place(text: str) -> int:
        return names.setdefault(text, len(names))

    frames = []
    for canvas in canvases:
        found = spots(canvas, name)
        frames.append(
            {
                "canvas": canvas.number,
                "step": canvas.step,
                "steps": canvas.steps,
                "accepted": round(canvas.accepted_share, 4),
                "shown": [place(spot.text) for spot in found],
                "likeliest": [place(name(token).text) for token in canvas.ids],
                "shades": "".join(spot.shade[0] for spot in found),
                "entropies": [round(100 * spot.entropy) for spot in found],
            }
        )
    return {"names": list(names), "frames": frames}


@cache
def _template() -> str:
    return Path(__file__).with_name("canvas_page.html").read_text("utf-8")


def _policy(template: str) -> str:
    """What a browser may do with the page: run its script, use its styles, and nothing else."""
    allowed = (f"{tag}-src '{_hash(template, tag)}'" for tag in ("script", "style"))
    return "; ".join(("default-src 'none'", *allowed, "base-uri 'none'", "form-action 'none'"))


def _hash(template: str, tag: str) -> str:
    (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", template, re.DOTALL)
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
