"""The Python in the pages about the adapters runs, block after block, and answers what it says."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["README.md", "docs/langchain.md", "docs/llama_index.md"])
def test_the_blocks_of_a_page_run(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) > 1
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)  # noqa: S102 - our own pages
    assert capsys.readouterr().out.startswith("Espresso needs a fine grind.")
