"""`embed`: texts in, vectors out, in the order of the texts and a batch at a time."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from doppler_core.errors import TextTooLongError
from doppler_core.settings import EngineSettings
from doppler_plugins.cli.opened import opened
from doppler_plugins.cli.options import engine_options
from doppler_plugins.cli.output import emit, json_option, progress_line
from doppler_plugins.cli.texts import Text, read_texts
from doppler_plugins.cli.vectors import vector_writer

if TYPE_CHECKING:
    from doppler_core.engine.request import EmbedResult
    from doppler_plugins.adapters.embed_options import Kind

_BATCH = 256  # texts of one request: enough to pack steps well, few enough to show progress and bound memory


@click.command(short_help="Turn texts, lines or files into vectors.")
@click.argument("model")
@click.argument("texts", nargs=-1)
@click.option(
    "--file",
    "-f",
    "files",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="A file, one text; or a folder: each .txt, .md and .rst file in it. May be repeated.",
)
@click.option("--query/--document", "is_query", help="Texts to search with, or texts to be found (default).")
@click.option("--prompt-name", help="Another prompt of the checkpoint, such as Clustering.")
@click.option("--prompt", help="The prompt word for word; '' = none.")
@click.option("--dimensions", type=click.IntRange(min=1), help="Length of a vector; without it, all.")
@click.option("--truncate", is_flag=True, help="Cut texts that are too long instead of failing.")
@click.option(
    "--output-dtype",
    type=click.Choice(["float32", "int8", "binary"]),
    default="float32",
    show_default=True,
    help="Of a vector's numbers; binary: sign bits, eight in each.",
)
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="A .npy or .jsonl file for the vectors."
)
@json_option
@engine_options
def embed(
    settings: EngineSettings,
    model: str,
    texts: tuple[str, ...],
    files: tuple[Path, ...],
    is_query: bool,
    prompt_name: str | None,
    prompt: str | None,
    dimensions: int | None,
    truncate: bool,
    output_dtype: str,
    out: Path | None,
    as_json: bool,
) -> None:
    """Embed TEXTS with MODEL, or the lines of stdin (also where a text is `-`), or files.

    Without --out the result is one JSON object per text; with --json one object in all, vectors included.
    """
    from doppler_plugins.adapters.embed_options import EmbedOptions, embed_request

    options = EmbedOptions(
        dimensions=dimensions,
        task=prompt_name,
        query_prompt=prompt,
        document_prompt=prompt,
        overflow="truncate" if truncate else "error",
        output_dtype=output_dtype,  # type: ignore[arg-type]
    )
    kind: Kind = "query" if is_query else "document"
    items = read_texts(texts, files)
    total = Total()
    with (
        vector_writer(out, collect=as_json) as writer,
        opened(model, settings, "embed") as engine,
        progress_line() as line,
    ):
        # Vectors that go to a terminal would be written into the line, and show how far it is themselves.
        progress = None if out is None and not as_json and sys.stdout.isatty() else line
        for batch in _batches(items):
            request = embed_request(options, kind, [item.text for item in batch], None, engine.capabilities)
            try:
                result = engine.submit(request).result()
            except TextTooLongError as error:
                if error.index is None:
                    raise
                raise TextTooLongError(
                    f"{batch[error.index].source} has {error.tokens} tokens with its prompt and the model takes "
                    f"{error.limit}: split it, or --truncate"
                ) from error
            writer.write(batch, result)
            total = total.plus(batch, result)
            if progress:
                progress("texts embedded:", total.texts, 0)
        if progress:
            progress("texts embedded:", total.texts, total.texts)
        summary = {"model": engine.model_id, "device": engine.device, **asdict(total)}
    if as_json:
        emit(summary | ({"vectors": writer.collected} if out is None else {"out": str(out)}), True, [])
    elif out is not None:
        emit(
            None,
            False,
            [
                f"{out}: {total.texts} vector{'' if total.texts == 1 else 's'} of {total.tokens} tokens, {summary['device']}"
            ],
        )
    for source in total.truncated:
        click.echo(f"cut to the model's length: {source}", err=True)


@dataclass(frozen=True)
class Total:
    """What was embedded so far; `truncated` names the sources of texts that were cut."""

    texts: int = 0
    tokens: int = 0
    truncated: tuple[str, ...] = ()

    def plus(self, batch: list[Text], result: "EmbedResult") -> "Total":
        """The total with one more batch."""
        cut = tuple(batch[index].source for index in result.truncated)
        return Total(self.texts + len(batch), self.tokens + sum(result.tokens), self.truncated + cut)


def _batches(items: Iterable[Text]) -> Iterator[list[Text]]:
    items = iter(items)
    while batch := list(islice(items, _BATCH)):
        yield batch
