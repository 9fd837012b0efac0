"""Imports go one way, and the core knows neither frameworks nor the plugin system."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CORE = ROOT / "core" / "doppler_core"
PLUGINS = ROOT / "doppler_plugins"

# A part may import parts of its own level and of lower ones. Types alone (TYPE_CHECKING) count too: a cycle is a cycle.
LEVELS = {
    "errors": 0,
    "settings": 0,
    "strict_json": 0,
    "manifest": 1,
    "weights": 1,
    "text": 1,
    "plan": 2,
    "device": 3,
    "engine": 4,
}
FRAMEWORKS = ("langchain_core", "langchain", "langchain_tests", "llama_index")
NOT_IN_CORE = (*FRAMEWORKS, "pluggy", "click", "doppler_plugins", "torch", "transformers", "huggingface_hub")
NATIVE_GPU = ("wgpu", "doppler_core.device", "doppler_core.engine")


def sources(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    """Every module a file imports, inside functions too; `from a import b` gives both a and a.b."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def part(module: str) -> str | None:
    """`doppler_core.plan.op` is of the part `plan`."""
    names = module.split(".")
    return names[1] if names[0] == "doppler_core" and len(names) > 1 else None


def within(module: str, roots: tuple[str, ...]) -> bool:
    return any(module == root or module.startswith(root + ".") for root in roots)


def module_of(path: Path) -> str:
    """`core/doppler_core/plan/op.py` is doppler_core.plan.op."""
    start = ROOT / "core" if path.is_relative_to(CORE) else ROOT
    return ".".join(path.relative_to(start).with_suffix("").parts)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", sources(CORE), ids=name)
def test_a_part_of_the_core_imports_nothing_to_its_right(path: Path) -> None:
    own = path.relative_to(CORE).parts[0].removesuffix(".py")
    if own == "__init__":
        assert not [module for module in imports(path) if part(module)]
        return
    assert own in LEVELS, f"{path}: a new part needs a level"
    wrong = {module for module in imports(path) if LEVELS.get(part(module) or "errors", 0) > LEVELS[own]}
    assert not wrong


def test_no_file_imports_one_that_imports_it_however_many_are_between() -> None:
    paths = [path for path in (*sources(CORE), *sources(PLUGINS)) if path.name != "__init__.py"]
    known = {module_of(path): path for path in paths}
    graph = {module: {other for other in imports(path) if other in known} for module, path in known.items()}
    assert len([*TopologicalSorter(graph).static_order()]) == len(known)  # CycleError names the files


@pytest.mark.parametrize("path", sources(CORE), ids=name)
def test_the_core_knows_no_framework_and_no_plugin_system(path: Path) -> None:
    assert not [module for module in imports(path) if within(module, NOT_IN_CORE)]


@pytest.mark.parametrize("path", [path for path in sources(CORE) if "device" not in path.parts], ids=name)
def test_only_devices_import_the_gpu_library(path: Path) -> None:
    assert not [module for module in imports(path) if within(module, ("wgpu",))]


def test_manifest_and_weights_do_not_import_each_other() -> None:
    for own, other in (("manifest", "weights"), ("weights", "manifest")):
        for path in sources(CORE / own):
            assert not [module for module in imports(path) if part(module) == other], path


@pytest.mark.parametrize("path", sources(PLUGINS), ids=name)
def test_only_its_own_package_imports_a_framework(path: Path) -> None:
    allowed = {
        "langchain": ("langchain_core", "langchain", "langchain_tests"),
        "llama_index": ("llama_index",),
        # Testing helpers and the demo show the frameworks at work; both import them inside functions.
        "testing": FRAMEWORKS,
        "cli": FRAMEWORKS,
    }
    folder = path.relative_to(PLUGINS).parts[0]
    for module in imports(path):
        if within(module, FRAMEWORKS):
            assert within(module, allowed.get(folder, ())), module


def test_only_hooks_and_loader_know_pluggy_and_only_the_command_line_knows_click() -> None:
    for path in sources(PLUGINS):
        folder = path.relative_to(PLUGINS).parts[0]
        found = set(imports(path))
        if path.name not in ("hookspecs.py", "manager.py"):
            assert "pluggy" not in found, path
        if folder != "cli" and path.name != "hookspecs.py":
            assert not [module for module in found if within(module, ("click",))], path
