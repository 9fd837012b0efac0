"""Prompts of embedding models: which one a request names, and the text it makes. It knows no tokenizer."""

import difflib
from collections.abc import Mapping

from doppler_core.errors import InputError
from doppler_core.text.tokenizer import well_formed

NO_TITLE = "title: none"


def choose_prompt(prompts: Mapping[str, str], name: str) -> str:
    """The prompt a checkpoint keeps under `name`, in any case of letters; InputError lists what there is."""
    if not isinstance(name, str):
        raise InputError(f"prompt_name is {type(name).__name__}: expected the name of a prompt")
    if name in prompts:
        return prompts[name]
    folded = {known.casefold(): prompt for known, prompt in prompts.items()}
    if name.casefold() in folded:
        return folded[name.casefold()]
    near = difflib.get_close_matches(name, prompts, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise InputError(f"prompt_name={name!r}: the model has the prompts {sorted(prompts)}{hint}")


def prompted(text: str, prompt: str, title: str | None = None) -> str:
    """The text that is tokenised: prompt and text, without white space around the whole.

    Stripping the whole, prompt included, is what sentence-transformers does: a document of spaces is the prompt
    alone. A title goes where the prompt says `title: none`; a prompt without that place takes none.
    """
    if title is not None and title.strip():
        if NO_TITLE not in prompt:
            raise InputError(f"title={title!r}: the prompt {prompt!r} has no {NO_TITLE!r} to put it in")
        prompt = prompt.replace(NO_TITLE, f"title: {title.strip()}", 1)
    return well_formed(prompt + text).strip()
