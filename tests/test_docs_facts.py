"""Tables of the pages leave nothing out: fields, words, errors, variables, dependencies; and their figures are the plan's."""

import inspect
import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from diffusion26b import diffusion_plan
from e2b import Change, e2b_plan

import doppler_plugins
from doppler_core import errors
from doppler_core.engine.request import (
    Delta,
    EmbedRequest,
    EmbedResult,
    GenerateRequest,
    GenerateResult,
    Timings,
    Usage,
)
from doppler_core.plan.cost import gpu_resident, numpy_resident
from doppler_core.plan.profile import apply_profile, profiles
from doppler_core.plan.room import Room
from doppler_core.settings import EngineSettings, data_dir
from doppler_plugins.adapters.generation_words import GenerationWords
from doppler_plugins.adapters.words import EmbeddingWords
from doppler_plugins.opening import open_engine

ROOT = Path(__file__).parents[1]


def page(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def named(text: str) -> set[str]:
    """All that stands in backticks."""
    return set(re.findall(r"`([^`\n]+)`", text))


@pytest.mark.parametrize("kind", [GenerateResult, Delta, Usage, Timings, GenerateRequest])
def test_every_field_is_on_the_page_about_generating(kind: type) -> None:
    # A request's first field is the prompt, and a mask is for programs that bring a grammar of their own.
    assert {field.name for field in fields(kind)} - named(page("docs/generation.md")) <= {"prompt", "mask"}


@pytest.mark.parametrize("kind", [EmbedRequest, EmbedResult])
def test_every_field_is_on_the_page_about_embedding(kind: type) -> None:
    assert {field.name for field in fields(kind)} <= named(page("docs/embedding.md"))


def test_what_the_package_offers_is_on_a_page() -> None:
    texts = "".join(path.read_text("utf-8") for path in (ROOT / "docs").glob("*.md"))
    assert [name for name in doppler_plugins.__all__ if not name.startswith("_") and name not in texts] == []


@pytest.mark.parametrize("words", [GenerationWords, EmbeddingWords])
def test_every_word_and_its_other_names_are_on_langchains_page_or_that_of_settings(
    words: type[GenerationWords] | type[EmbeddingWords],
) -> None:
    pages = named(page("docs/langchain.md")) | named(page("docs/settings.md"))
    assert {*words.model_fields, *words.aliases} <= pages


def test_llama_indexs_page_has_the_names_that_only_its_class_takes() -> None:
    from doppler_plugins.llama_index import DopplerEmbedding, DopplerLLM

    shared = named(page("docs/langchain.md"))
    assert set(DopplerLLM.aliases) - shared <= named(page("docs/llama_index.md"))
    own = {"embed_batch_size", "embeddings_cache", "title_metadata_key"}
    assert own <= set(DopplerEmbedding.model_fields) & named(page("docs/llama_index.md"))


def test_every_error_is_on_the_page_about_trouble() -> None:
    tree = {name for name, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, Exception)}
    assert tree <= named(page("docs/troubleshooting.md"))


def test_the_messages_that_the_page_about_trouble_quotes_are_said_somewhere() -> None:
    code = [
        path.read_text("utf-8")
        for name in ("core", "doppler_plugins")
        for path in (ROOT / name).rglob("*.py")
    ]
    # A message may go on over several lines of its source, and have an `f` on each.
    said = re.sub(r'"\s+f?"', "", "\n".join(code))
    rows = re.findall(r"^\| ([^|]*)", page("docs/troubleshooting.md"), re.MULTILINE)
    quoted = [
        part.strip() for row in rows for text in re.findall(r'"([^"]+)"', row) for part in text.split("...")
    ]
    assert len(quoted) > 10
    assert [part for part in quoted if part not in said] == []


def test_the_declaration_of_a_plugin_is_that_of_the_example_package() -> None:
    block, _ = re.findall(r"^```toml\n(.*?)^```$", page("docs/plugins.md"), re.MULTILINE | re.DOTALL)
    example = tomllib.loads(page("tests/plugins/doppler_plugins_example/pyproject.toml"))
    assert tomllib.loads(block)["project"]["entry-points"] == example["project"]["entry-points"]


@pytest.mark.parametrize("name", ["demo-embedding", "demo-chat"])
def test_the_sizes_of_a_bundled_model_are_its_own(name: str) -> None:
    with open_engine(name, EngineSettings(device="numpy")) as engine:
        can = engine.capabilities
    _, _, section = page("docs/settings.md").partition("## Bundled models")
    (said,) = re.findall(rf"^`{name}` has .*$", section, re.MULTILINE)
    assert f"takes {can.context_length:,} tokens" in said
    assert " or ".join(", ".join(map(str, can.dimensions)).rsplit(", ", 1)) in said
    megabytes = sum(file.stat().st_size for file in (data_dir("models") / name).iterdir()) / 1e6
    (row,) = re.findall(rf"^\| `{name}` .*bundled, ([\d.]+) MB", page("README.md"), re.MULTILINE)
    assert float(row) == pytest.approx(megabytes, abs=0.5)  # said to half a megabyte


def test_every_dependency_has_a_sentence() -> None:
    project = tomllib.loads(page("pyproject.toml"))["project"]
    extras = [
        line for name, lines in project["optional-dependencies"].items() if name != "all" for line in lines
    ]
    names = {re.split(r"[<>=!~\[ ]", line)[0] for line in (*project["dependencies"], *extras)}
    _, _, section = page("README.md").partition("## Dependencies")
    assert names <= named(section)


def on_host(data: dict[str, Any]) -> None:
    data["session"]["perLayerInputs"]["materialization"] = "range_backed"


@pytest.mark.parametrize(
    ("profile", "change", "row"),
    [
        ("gpu", None, r"GPU \| `gpu` \(default\).* on the GPU"),
        ("packed", None, r"GPU \| `packed`: .* on the GPU"),
        ("gpu", on_host, r"GPU \| `gpu` \| in the file"),
        ("packed", on_host, r"GPU \| `packed` \| in the file"),
    ],
)
def test_the_memory_that_gemma_4_takes_on_a_gpu_is_what_its_plan_says(
    profile: str, change: Change | None, row: str
) -> None:
    # Ten storage buffers: what hardware GPU adapters have, and the manifest's own gather binds.
    plan = apply_profile(e2b_plan(change), profiles()[profile], storage_buffers=10)
    (said,) = re.findall(rf"\| {row} \| ([\d.]+) GB", page("docs/gemma4.md"))
    assert float(said) == round(gpu_resident(plan) / 1e9, 1)


def test_the_memory_that_gemma_4_takes_with_numpy_is_what_its_plan_says() -> None:
    (said,) = re.findall(r"\| NumPy \| .* \| ([\d.]+) GB", page("docs/gemma4.md"))
    assert float(said) == round(numpy_resident(e2b_plan()) / 1e9, 1)


def test_the_memory_that_diffusion_gemma_takes_is_what_its_plan_says() -> None:
    # The room that an engine gives it where memory is not short.
    plan = diffusion_plan(room=Room(8192, slots=4, chunk=256, snapshots=4))
    text = page("docs/diffusion.md")
    for row, need in (("NumPy", numpy_resident(plan)), ("GPU", gpu_resident(plan))):
        (said,) = re.findall(rf"^\| {row} \| ([\d.]+) GB", text, re.MULTILINE)
        assert float(said) == round(need / 1e9, 1)
