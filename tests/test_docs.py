"""Every page says what is so: its Python runs, its commands are commands, its links lead somewhere.

Models that nobody ships with a program are played by the bundled ones. A `text` block right after a Python block is what
that block prints.
"""

import asyncio
import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from doppler_core.settings import EngineSettings, data_dir
from doppler_plugins import sources
from doppler_plugins.cli.program import cli

ROOT = Path(__file__).parents[1]
PAGES = [
    "README.md",
    "examples/README.md",
    *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))),
]
TEXTS = {page: (ROOT / page).read_text("utf-8") for page in PAGES}
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
RUNNING = [page for page in PAGES if BLOCK.search(TEXTS[page])]

#: What the pages name, and who plays it.
STAND_INS = {
    "embeddinggemma-300m.gguf": "demo-embedding",
    "hf:google/gemma-4-E2B-it": "demo-chat",
}


@pytest.fixture
def left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a page says to LlamaIndex as a whole is said for that page alone."""
    import llama_index.core
    from llama_index.core import Settings

    for name in ("_llm", "_embed_model", "_tokenizer", "_node_parser", "_prompt_helper", "_transformations"):
        monkeypatch.setattr(Settings, name, None)
    monkeypatch.setattr(llama_index.core, "global_tokenizer", None)
    # LlamaIndex asks for the thread's event loop to count tokens, and leaves one that it makes itself unclosed.
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


@pytest.fixture
def bundled_for_real(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Real models' names lead to the bundled ones, in an empty working directory with an empty cache."""
    locate = sources.locate

    def stand_in(model: str, settings: EngineSettings) -> Path:
        return locate(STAND_INS.get(model, model), settings)

    monkeypatch.setattr("doppler_plugins.opening.locate", stand_in)
    monkeypatch.setenv("DOPPLER_PLUGINS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gemma-4-e2b").symlink_to(data_dir("models") / "demo-chat")


# LlamaIndex's workflows look at every attribute of an agent, pydantic's deprecated ones too.
@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20")
@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211")
@pytest.mark.usefixtures("bundled_for_real", "left_as_it_was")
@pytest.mark.parametrize("page", RUNNING)
def test_the_python_of_a_page_runs_block_after_block_and_prints_what_it_says(page: str) -> None:
    names: dict[str, object] = {"__name__": "page"}
    for block in BLOCK.finditer(TEXTS[page]):
        code, expected = block.groups()
        # On its own lines of the page, which a traceback then shows.
        before = "\n" * TEXTS[page].count("\n", 0, block.start(1))
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(before + code, ROOT / page, "exec"), names)  # noqa: S102 - our own pages
        if expected:
            assert printed.getvalue() == expected, code


def test_every_stand_in_plays_somebody() -> None:
    code = "".join(block[1] for page in RUNNING for block in BLOCK.finditer(TEXTS[page]))
    assert [name for name in STAND_INS if f'"{name}"' not in code] == []


COMMANDS = [
    (page, line)
    for page in PAGES
    for line in re.findall(r"^(?:    )?(?:\$ )?doppler-plugins (.+?)(?:  +#.*)?$", TEXTS[page], re.MULTILINE)
]


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_a_command_line_of_a_page_is_one(page: str, line: str) -> None:
    command: click.Command = cli
    words = shlex.split(line)
    while isinstance(command, click.Group):
        context = click.Context(command)
        _, (name, *words), _ = command.make_parser(context).parse_args(words)
        found = command.get_command(context, name)
        assert found is not None, line
        command = found
    command.make_context("doppler-plugins", words)


def anchors(page: str) -> set[str]:
    """What a link may name behind `#`: the page's headings, as the sites that show it make them."""
    headings = re.findall(r"^#+ (.*)$", TEXTS[page], re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_between_pages_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)]*)\)", TEXTS[page]):
        name, _, anchor = target.partition("#")
        path = ((ROOT / page).parent / name).resolve() if name else ROOT / page
        assert path.exists(), target
        if anchor:
            assert anchor in anchors(str(path.relative_to(ROOT))), target


def test_every_page_is_linked_from_the_readme() -> None:
    linked = set(re.findall(r"\]\((docs/[^)#]*)", TEXTS["README.md"]))
    assert linked == {page for page in PAGES if page.startswith("docs/")}
