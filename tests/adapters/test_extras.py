"""Without the frameworks the package imports, and the adapters say what to install."""

import importlib
import subprocess
import sys

import pytest

FRAMEWORKS = ("langchain_core", "llama_index", "pydantic", "wgpu", "numpy")


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_packages_imports_no_framework() -> None:
    code = (
        "import sys, doppler_plugins, doppler_plugins.langchain, doppler_plugins.llama_index\n"
        "import doppler_plugins.adapters, doppler_plugins.testing\n"
        f"print([name for name in {FRAMEWORKS} if name in sys.modules])"
    )
    assert run(code) == "[]"


@pytest.mark.parametrize(
    ("framework", "statement", "extra"),
    [
        ("langchain_core", "from doppler_plugins.langchain import DopplerEmbeddings", "langchain"),
        ("langchain_core", "from doppler_plugins.langchain import TitledEmbeddings", "langchain"),
        ("langchain_core", "import doppler_plugins.langchain.embeddings", "langchain"),
        ("langchain_core", "from doppler_plugins.langchain import ChatDoppler", "langchain"),
        ("langchain_core", "from doppler_plugins.langchain import DopplerLLM", "langchain"),
        ("langchain_core", "from doppler_plugins.langchain import init_chat_model", "langchain"),
        ("llama_index", "from doppler_plugins.llama_index import DopplerEmbedding", "llama-index"),
        ("llama_index", "import doppler_plugins.llama_index.embedding", "llama-index"),
        ("llama_index", "from doppler_plugins.llama_index import DopplerLLM", "llama-index"),
        ("llama_index", "from doppler_plugins.llama_index import use_doppler", "llama-index"),
    ],
)
def test_a_missing_framework_is_an_import_error_with_the_pip_line(
    framework: str, statement: str, extra: str
) -> None:
    code = (
        f"import sys; sys.modules[{framework!r}] = None\n"
        f"try:\n    {statement}\nexcept ImportError as error:\n    print(error)"
    )
    assert f'pip install "doppler-plugins[{extra}]"' in run(code)


@pytest.mark.parametrize("package", ["langchain", "llama_index", "testing"])
def test_a_wrong_name_is_an_attribute_error(package: str) -> None:
    module = importlib.import_module(f"doppler_plugins.{package}")
    with pytest.raises(AttributeError, match="DopplerEmbedings"):
        module.DopplerEmbedings  # noqa: B018
    assert set(module.__all__) <= set(dir(module))
