"""Names find their model type or adapter, or say why not."""

import importlib.metadata
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plugin_fakes import model_type_source, write_distribution

import doppler_plugins
from doppler_core.errors import PluginError
from doppler_plugins import registry as registry_module
from doppler_plugins.discovery import BUILTINS, canonical, find_declarations
from doppler_plugins.registry import build_registry

MODEL_TYPES = "doppler_plugins.model_types"
ADAPTERS = "doppler_plugins.adapters"


def declare(folder: Path, distribution: str, name: str, module: str, group: str = MODEL_TYPES) -> None:
    """A distribution that declares one class lazily."""
    write_distribution(
        folder,
        distribution,
        {group: {name: f"{module}:Model"}},
        {module: model_type_source(name, f"{module}Arch")},
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the import path."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_built_ins_are_found_through_the_entry_points_of_the_installed_project() -> None:
    found = {(item.group, item.name): item.value for item in find_declarations() if item.builtin}
    wanted = {(group, name): value for group, names in BUILTINS.items() for name, value in names.items()}
    assert found == wanted


def test_built_ins_are_found_without_any_metadata(tmp_path: Path) -> None:
    declarations = find_declarations([str(tmp_path)])
    assert [item.name for item in declarations] == [
        "causal",
        "diffusion_gemma",
        "embedding",
        "langchain.chat",
        "langchain.embeddings",
        "langchain.llm",
        "llama_index.embedding",
        "llama_index.llm",
    ]
    assert all(item.builtin for item in declarations)


@pytest.mark.parametrize(
    "name", ["static-vectors", "STATIC_VECTORS", " Static-Vectors ", "dist-a:static_vectors"]
)
def test_case_and_dashes_do_not_matter(folder: Path, name: str) -> None:
    declare(folder, "Dist.A", "Static-Vectors", "case_module")
    assert build_registry().model_type(name).name == "Static-Vectors"


@given(st.text(st.characters(codec="utf-8"), max_size=20))
def test_a_canonical_name_is_its_own_canonical_name(name: str) -> None:
    assert canonical(canonical(name)) == canonical(name)


def test_listing_and_finding_import_nothing_of_a_declared_class(folder: Path) -> None:
    declare(folder, "lazy", "lazy", "lazy_module")
    registry = build_registry()
    assert registry.find("model type", "lazy").factory == "lazy_module:Model"
    assert "lazy_module" not in sys.modules


def test_two_plugins_with_one_name_are_ambiguous_until_one_is_named(folder: Path) -> None:
    declare(folder, "first", "shared", "shared_first")
    declare(folder, "second", "shared", "shared_second")
    registry = build_registry()
    with pytest.raises(PluginError, match="'first:shared' or 'second:shared'"):
        registry.model_type("shared")
    assert registry.model_type("second:shared").architectures == ("shared_secondArch",)
    assert registry.model_type("first:shared").architectures == ("shared_firstArch",)


def test_a_built_in_is_not_shadowed_and_the_other_stays_reachable(folder: Path) -> None:
    declare(folder, "rival", "embedding", "rival_module")
    registry = build_registry()
    assert registry.find("model type", "embedding").builtin
    assert not registry.find("model type", "rival:embedding").builtin
    (record,) = [record for record in registry.records if record.distribution == "rival"]
    assert "rival:embedding" in record.warnings[0]


def test_an_alias_finds_its_name_and_an_exact_name_beats_it(folder: Path) -> None:
    text = """
        import doppler_plugins

        @doppler_plugins.hookimpl
        def doppler_register_model_types(register):
            register("long-name", "alias_module:Model", aliases=("short", "embedding"), architectures=("AliasArch",))
    """
    write_distribution(
        folder,
        "aliased",
        {"doppler_plugins": {"aliased": "alias_hooks"}},
        {"alias_hooks": text, "alias_module": model_type_source("long-name", "AliasArch")},
    )
    registry = build_registry()
    assert registry.find("model type", "short").name == "long_name"
    assert registry.find("model type", "embedding").builtin
    assert registry.model_type_for(["Other", "AliasArch"]).name == "long-name"


def test_a_declared_class_is_found_by_the_architectures_it_states(folder: Path) -> None:
    declare(folder, "stated", "stated", "stated_module")
    registry = build_registry()
    assert registry.model_type_for(["stated_moduleArch"]).name == "stated"
    assert registry.model_type_for(["NobodyKnowsThis"]) is None


def test_a_built_in_keeps_its_architectures_and_two_plugins_can_not_share_one(folder: Path) -> None:
    for name in ("one", "two"):
        module = f"claims_{name}"
        source = model_type_source(name, "Gemma3TextModel").replace(
            '("Gemma3TextModel",)', '("Gemma3TextModel", "Both")'
        )
        write_distribution(folder, name, {MODEL_TYPES: {name: f"{module}:Model"}}, {module: source})
    registry = build_registry()
    assert registry.model_type_for(["Gemma3TextModel"]).name == "embedding"
    with pytest.raises(PluginError, match="one:one and two:two both take them"):
        registry.model_type_for(["Both"])


def test_a_class_that_can_not_be_imported_does_not_stop_the_search_by_architecture(folder: Path) -> None:
    write_distribution(folder, "aaa", {MODEL_TYPES: {"aaa": "no_such_module_anywhere:Model"}})
    declare(folder, "searched", "searched", "searched_module")
    assert build_registry().model_type_for(["searched_moduleArch"]).name == "searched"


def test_an_unknown_name_gets_the_nearest_ones_and_the_plugins_that_failed(folder: Path) -> None:
    write_distribution(folder, "sick", {"doppler_plugins": {"sick": "no_such_module_anywhere"}})
    with pytest.raises(PluginError) as raised:
        build_registry().model_type("embeding")
    assert "did you mean embedding?" in str(raised.value)
    assert "sick (sick 1.0) failed: ModuleNotFoundError" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Model = 7", "lacks name, architectures, capabilities, lower, driver"),
        ("class Model: name = 'half'", "lacks architectures, capabilities, lower, driver"),
        ("class Model:\n    def __init__(self, size): ...", "TypeError"),
        ("raise OSError('gone')", "OSError: gone"),
        ("DOPPLER_PLUGINS_API = 99\nclass Model: ...", "DOPPLER_PLUGINS_API = 99"),
        ("", "has no attribute 'Model'"),
    ],
)
def test_what_is_not_a_model_type_says_so_when_used_and_when_checked(
    folder: Path, request: pytest.FixtureRequest, text: str, reason: str
) -> None:
    module = f"claim_{abs(hash(request.node.name))}"
    write_distribution(folder, "claim", {MODEL_TYPES: {"claim": f"{module}:Model"}}, {module: text})
    registry = build_registry()
    with pytest.raises(PluginError, match=r"'claim:claim' of claim 1\.0") as raised:
        registry.model_type("claim")
    assert reason in str(raised.value)
    (record,) = [record for record in registry.check() if record.name == "claim"]
    assert record.status == "failed"
    assert reason in record.reason


def test_an_adapter_whose_framework_is_missing_gives_the_line_that_installs_it(folder: Path) -> None:
    write_distribution(
        folder,
        "other-adapters",
        {ADAPTERS: {"haystack.embedder": "no_such_module_anywhere:Model"}},
        metadata='Provides-Extra: haystack\nRequires-Dist: no-such-framework>=2; extra == "haystack"\n',
    )
    registry = build_registry()
    with pytest.raises(PluginError, match=r'no-such-framework>=2.*pip install "other-adapters\[haystack\]"'):
        registry.adapter("haystack.embedder")
    (record,) = [record for record in registry.check() if record.name == "haystack.embedder"]
    assert record.status == "unavailable"
    assert not record.is_problem


def test_an_adapter_refuses_the_wrong_version_of_its_framework(folder: Path) -> None:
    write_distribution(
        folder,
        "old-adapters",
        {ADAPTERS: {"numpy.thing": "no_such_module_anywhere:Model"}},
        metadata='Provides-Extra: numpy\nRequires-Dist: numpy<1; extra == "numpy"\n',
    )
    with pytest.raises(PluginError, match=r"needs numpy<1, found \d"):
        build_registry().adapter("numpy.thing")


def test_versions_are_read_of_plugins_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(folder, "mine", "mine", "read_mine")
    write_distribution(folder, "other", {"console_scripts": {"other": "no_such_module:main"}})
    asked: list[str] = []

    def version(distribution: importlib.metadata.Distribution) -> str:
        asked.append(distribution.metadata["Name"])
        return "1.0"

    monkeypatch.setattr(importlib.metadata.Distribution, "version", property(version))
    assert [item.origin for item in find_declarations([str(folder)])][-1] == "mine 1.0"
    assert "mine" in asked
    assert "other" not in asked


def test_the_order_is_the_same_whatever_the_order_on_the_path(folder: Path, tmp_path: Path) -> None:
    for name in ("zeta", "alpha", "mid"):
        declare(folder / name, name, "same", f"order_{name}")
    paths = [str(folder / name) for name in ("zeta", "alpha", "mid")]
    one = [item.distribution for item in find_declarations(paths)]
    two = [item.distribution for item in find_declarations(paths[::-1])]
    assert one == two
    assert one[-3:] == ["alpha", "mid", "zeta"]


def test_eight_threads_discover_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def build() -> object:
        calls.append(threading.get_ident())
        return build_registry()

    monkeypatch.setattr(registry_module, "_registry", None)
    monkeypatch.setattr(registry_module, "build_registry", build)
    start = threading.Barrier(8)
    found: list[object] = []

    def ask() -> None:
        start.wait()
        found.append(doppler_plugins.plugins())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert len(found) == 8
    assert len({id(item) for item in found}) == 1


def test_discovery_that_raised_is_tried_again(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(registry_module, "_registry", None)
    monkeypatch.setenv("DOPPLER_PLUGINS_STRICT", "1")
    write_distribution(folder, "sick", {"doppler_plugins": {"sick": "no_such_module_anywhere"}})
    with pytest.raises(PluginError):
        doppler_plugins.plugins()
    (folder / "sick-1.0.dist-info" / "entry_points.txt").unlink()
    assert doppler_plugins.plugins().records


def test_the_public_names_are_what_all_lists() -> None:
    assert dir(doppler_plugins) == sorted(doppler_plugins.__all__)
    code = "import doppler_plugins as d; print(all(getattr(d, n) is not None for n in d.__all__))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
    with pytest.raises(AttributeError, match="no_such_name"):
        doppler_plugins.no_such_name  # noqa: B018
