"""`bench generate`: how fast a model reads a prompt, goes on with it, and serves several requests at once."""

import itertools
import statistics
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from doppler_core.errors import InputError
from doppler_core.settings import EngineSettings
from doppler_plugins.cli.opened import opened
from doppler_plugins.cli.options import engine_options
from doppler_plugins.cli.output import emit, json_option, progress_line

if TYPE_CHECKING:
    from doppler_core.engine.engine import Engine
    from doppler_core.engine.request import GenerateResult

_SENTENCE = "The river carries morning light under the old bridge while people walk to work. "


@click.command("generate", short_help="Time prompts, answers, and requests at once.")
@click.argument("model")
@click.option(
    "--prompt-tokens", type=click.IntRange(min=1), default=512, show_default=True, help="Tokens of a prompt."
)
@click.option(
    "--new-tokens", type=click.IntRange(min=2), default=64, show_default=True, help="Tokens of an answer."
)
@click.option(
    "--requests", type=click.IntRange(min=1), default=4, show_default=True, help="Requests at once."
)
@click.option(
    "--repeats", type=click.IntRange(min=1), default=5, show_default=True, help="Runs; the median counts."
)
@json_option
@engine_options
def bench_generate(
    settings: EngineSettings,
    model: str,
    prompt_tokens: int,
    new_tokens: int,
    requests: int,
    repeats: int,
    as_json: bool,
) -> None:
    """Open MODEL, warm it up, then run one request at a time, and several at once. No prompt begins like another."""
    began = time.perf_counter()
    with opened(model, settings, "generate", "bench ") as engine, progress_line() as progress:
        ready = time.perf_counter()
        _check_room(engine, prompt_tokens, new_tokens)
        engine.warmup()
        warm = time.perf_counter()
        prompts = _prompts(engine, prompt_tokens)
        alone: list[GenerateResult] = []
        merged: list[float] = []
        for number in range(repeats):
            (result,), _ = _run(engine, [next(prompts)], new_tokens)
            alone.append(result)
            results, seconds = _run(engine, list(itertools.islice(prompts, requests)), new_tokens)
            merged.append(sum(len(one.ids) for one in results) / seconds)
            if progress:
                progress("measuring", number + 1, repeats)
        found: dict[str, Any] = {
            "model": engine.model_id,
            "device": engine.device,
            "prompt_tokens": alone[0].usage.prompt_tokens,
            "new_tokens": new_tokens,
            "requests": requests,
            "repeats": repeats,
            "open_seconds": ready - began,
            "warmup_seconds": warm - ready,
            "prefill_tokens_per_second": _medians(
                [one.usage.prompt_tokens / one.timings.prefill for one in alone]
            ),
            "first_token_seconds": _medians([one.timings.first_token for one in alone]),
            "decode_tokens_per_second": _medians([one.timings.tokens_per_second for one in alone]),
            "merged_tokens_per_second": _medians(merged),
        }
    emit(found, as_json, _lines(found))


def _check_room(engine: "Engine", prompt_tokens: int, new_tokens: int) -> None:
    room = engine.capabilities.context_length
    if prompt_tokens + new_tokens > room:
        raise InputError(
            f"{prompt_tokens} prompt tokens and {new_tokens} new ones do not fit the context of {room}: give a larger "
            "--context-length, or fewer --prompt-tokens"
        )


def _prompts(engine: "Engine", tokens: int) -> Iterator[str]:
    """Texts of about so many tokens and no more, no two with the same beginning."""
    words = (_SENTENCE * (tokens // 10 + 1)).split()
    for number in itertools.count():
        few, many = 0, len(words)
        while few < many:
            middle = (few + many + 1) // 2
            fits = engine.count_tokens(" ".join([f"{number}:", *words[:middle]])) <= tokens
            few, many = (middle, many) if fits else (few, middle - 1)
        yield " ".join([f"{number}:", *words[:few]])


def _run(engine: "Engine", prompts: list[str], new_tokens: int) -> "tuple[list[GenerateResult], float]":
    """Answers to all prompts at once, each of as many tokens, and the seconds that they took together."""
    from doppler_core.engine.request import GenerateRequest

    began = time.perf_counter()
    handles = [
        engine.submit(GenerateRequest(prompt, max_tokens=new_tokens, temperature=0, ignore_eos=True))
        for prompt in prompts
    ]
    results = [handle.result() for handle in handles]
    return results, time.perf_counter() - began


def _medians(values: list[float]) -> dict[str, Any]:
    return {"median": statistics.median(values), "each": values}


def _lines(found: dict[str, Any]) -> list[str]:
    def rate(name: str) -> str:
        each = found[name]["each"]
        return f"{found[name]['median']:.1f} tokens/s ({min(each):.1f} to {max(each):.1f})"

    return [
        f"{found['model']} on {found['device']}",
        f"open {found['open_seconds']:.2f} s, warm-up {found['warmup_seconds']:.2f} s",
        f"prompt of {found['prompt_tokens']} tokens: {rate('prefill_tokens_per_second')}",
        f"first token after {found['first_token_seconds']['median']:.2f} s",
        f"answer of {found['new_tokens']} tokens: {rate('decode_tokens_per_second')}",
        f"{found['requests']} requests at once: {rate('merged_tokens_per_second')}",
        f"medians of {found['repeats']}, least and most in brackets",
    ]
