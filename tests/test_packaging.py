"""The wheel holds the whole tree and nothing else, and works without the checkout; files stay small."""

import os
import shutil
import statistics
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from doppler_plugins.discovery import BUILTINS

ROOT = Path(__file__).parents[1]
CODE = {"doppler_core": ROOT / "core" / "doppler_core", "doppler_plugins": ROOT / "doppler_plugins"}
DATA = {"wgsl": (".wgsl", ".json"), "manifests": (".json",), "models": (".json", ".bin")}
CEILING, MEDIAN = 400, 200


@pytest.fixture(scope="module")
def project() -> dict[str, object]:
    """pyproject.toml."""
    found: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the sources, so that no stale build folder can help it."""
    source = tmp_path_factory.mktemp("source")
    skip = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("core", "doppler_plugins", *DATA):
        shutil.copytree(ROOT / name, source / name, ignore=skip)
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, source / name)
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's content, as an installer lays it out."""
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def tree() -> set[str]:
    """Every file that the wheel must hold, by its path in the wheel."""
    found = set()
    for package, folder in CODE.items():
        files = (*folder.rglob("*.py"), *folder.rglob("*.html"))
        found |= {f"{package}/{path.relative_to(folder)}" for path in files}
        found.add(f"{package}/py.typed")
    for name, suffixes in DATA.items():
        found |= {
            f"doppler_core/{name}/{path.relative_to(ROOT / name)}"
            for path in (ROOT / name).rglob("*")
            if path.is_file() and path.suffix in suffixes
        }
    return found


def test_the_package_list_is_the_tree(project: dict[str, object]) -> None:
    packages = {f"doppler_core.{name}" for name in DATA}
    for package, folder in CODE.items():
        for path in folder.rglob("__init__.py"):
            packages.add(".".join([package, *path.parent.relative_to(folder).parts]))
    tool = project["tool"]
    assert isinstance(tool, dict)
    assert set(tool["setuptools"]["packages"]) == packages


def test_every_folder_of_code_is_a_package() -> None:
    for folder in CODE.values():
        for path in folder.rglob("*.py"):
            assert (path.parent / "__init__.py").is_file(), f"{path.parent} has no __init__.py"


def test_the_wheel_holds_the_tree_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == tree()


def test_the_wheel_carries_licence_notice_command_and_entry_points(unpacked: Path) -> None:
    (info,) = unpacked.glob("*.dist-info")
    assert {"LICENSE", "NOTICE"} <= {path.name for path in info.rglob("*")}
    points = (info / "entry_points.txt").read_text()
    assert "doppler-plugins = doppler_plugins.cli:main" in points
    for group, names in BUILTINS.items():
        assert f"[{group}]" in points
        for name, value in names.items():
            assert f"{name} = {value}" in points


def test_the_wheel_runs_without_the_checkout(unpacked: Path, tiny_artifact: Path, tmp_path: Path) -> None:
    code = (
        "import doppler_core, doppler_plugins.cli.program as program, sys\n"
        "from doppler_core.settings import data_dir\n"
        "where = {doppler_core.__file__, str(data_dir('wgsl')), str(data_dir('manifests')), program.__file__}\n"
        "assert all(path.startswith(sys.argv[1]) for path in where), where\n"
        "sys.exit(program.run(['embed', sys.argv[2], 'text']))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(unpacked), "DOPPLER_PLUGINS_DEVICE": "numpy"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(unpacked), str(tiny_artifact)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"vector": [' in done.stdout


def test_files_stay_small() -> None:
    sources = [path for folder in (*CODE.values(), ROOT / "wgsl") for path in folder.rglob("*.*")]
    sources = [path for path in sources if path.suffix in (".py", ".wgsl") and path.name != "__init__.py"]
    counts = {path: len(path.read_text("utf-8").splitlines()) for path in sources}
    assert not {str(path): count for path, count in counts.items() if count > CEILING}
    assert statistics.median(counts.values()) <= MEDIAN
    tests = {path: len(path.read_text("utf-8").splitlines()) for path in (ROOT / "tests").rglob("*.py")}
    assert not {str(path): count for path, count in tests.items() if count > CEILING}


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 150
