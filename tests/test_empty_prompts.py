"""Prompts of no token: there is nothing to choose the first one from, and nobody may wait for it."""

from pathlib import Path
from typing import Any

import pytest

from doppler_core.engine.prompts import Prompts
from doppler_core.errors import InputError
from tests.causal_fakes import Opening

NOTHING = r"^the prompt comes to no token: .*; give a text, or name a chat_format$"
ASKED = [{"role": "user", "content": "Hello!"}]


@pytest.mark.parametrize("max_tokens", [None, 0, 3])
def test_a_template_that_writes_nothing_is_an_error_and_holds_up_nobody(
    opened: Opening, tmp_path: Path, max_tokens: int | None
) -> None:
    template = tmp_path / "chat_template.jinja"
    template.write_text("{# nothing #}")
    model, _ = opened(files={template.name: template})
    with pytest.raises(InputError, match=NOTHING):
        model.generate(ASKED, max_tokens=max_tokens)
    assert model.generate("w1", max_tokens=2).ids


@pytest.mark.parametrize("asked", [{}, {"max_tokens": 0}, {"overflow": "truncate_left"}])
def test_an_empty_text_is_one_where_the_tokenizer_puts_nothing_before_it(
    opened: Opening, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    model, _ = opened()
    assert model.generate("", max_tokens=2).ids, "behind the begin token"
    monkeypatch.setattr(Prompts, "begin", None)
    with pytest.raises(InputError, match=NOTHING):
        model.generate("", **asked)
    assert model.generate("w1", max_tokens=2).ids
