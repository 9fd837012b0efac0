"""What an engine is asked and what it answers: plain data, no behaviour."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from doppler_core.settings import Overflow

if TYPE_CHECKING:
    from doppler_core.text.chat.messages import InvalidToolCall, Message, Tool, ToolCall
    from doppler_core.text.grammar.form import Grammar

OutputType = Literal["float32", "int8", "binary"]
PromptOverflow = Literal["error", "truncate_left"]
FinishReason = Literal["stop", "length", "tool_calls", "cancelled"]


@dataclass(frozen=True)
class EmbedRequest:
    """Texts to embed, all with the same options.

    prompt_name: a prompt of the checkpoint ("query", "document", "Clustering", ...).
    prompt: a literal prompt that replaces the named one ("" = none).
    titles: per text, for the document prompt; None = no title.
    dimensions: 768, 512, 256 or 128 for EmbeddingGemma; None = all.
    overflow: what to do with a text over the model's tokens: "error", or "truncate" its end.
    output_dtype: "float32"; "int8" (round(127 v)); "binary" (sign bits, eight a byte, packed like np.packbits).
    """

    texts: tuple[str, ...]
    prompt_name: str = "document"
    prompt: str | None = None
    titles: tuple[str | None, ...] | None = None
    dimensions: int | None = None
    overflow: Overflow = "error"
    output_dtype: OutputType = "float32"


@dataclass(frozen=True)
class EmbedResult:
    """Vectors in the order of the texts.

    vectors: [texts, dimensions] float32 or int8, or [texts, dimensions / 8] uint8 for "binary".
    tokens: per text, as run (prompt, begin and end tokens included).
    truncated: indices of the texts that were cut.
    """

    vectors: npt.NDArray[np.float32] | npt.NDArray[np.int8] | npt.NDArray[np.uint8]
    tokens: tuple[int, ...]
    truncated: tuple[int, ...] = ()
    seconds: float = 0.0


class CanvasNoise(Protocol):
    """What a request's canvases draw in place of the noise of its seed: a recorded run is made again with it. The
    engine's worker calls it. Canvases count from 0, steps of a canvas from 1; n positions, in their order."""

    def first(self, canvas: int) -> npt.NDArray[np.integer]:
        """The tokens that the canvas begins with, [n]."""

    def step(self, canvas: int, step: int) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.integer]]:
        """Of a step: where among the probabilities each position's draw falls, [n] in [0, 1); and the random tokens of
        those that are not accepted, [n]."""


class TokenMask(Protocol):
    """What limits the next token: a grammar that follows the text. The engine's worker calls it.

    It may also have `forced()`, the tokens that must come next, which are then not sampled one by one, and `stopped`,
    True once the text is whole.
    """

    def words(self) -> npt.NDArray[np.uint32]:
        """The tokens that may come next: bit i % 32 of word i // 32 for token i, [ceil(vocabulary / 32)]."""

    def accept(self, token: int) -> None:
        """The token that came."""


@dataclass(frozen=True)
class GenerateRequest:
    """A text to go on with.

    prompt: a text, which gets the begin token; token ids, taken as they are; or a conversation, mappings with `role`
        and `content` or Messages, put in the model's chat format; it ends with the model's turn, begun if a last
        message of the assistant begins it.
    chat_format: "gemma3" or "gemma4" for a conversation, in place of the model's own.
    max_tokens: 0 = run the prompt and make nothing; None = as many as the context has room for.
    temperature to seed: None = as the checkpoint's generation_config says; where it says nothing, the likeliest token.
        temperature 0 = the likeliest token; top_k 0 = no limit; top_p 0 = the top token; seed None = another each time.
    logit_bias: added to the logits of token ids, before the temperature.
    stop: strings that end the text and are not in it, or names of control tokens; stop_ids: tokens that end it, beside
        the model's own end tokens.
    ignore_eos: go on past the model's end tokens.
    mask: makes what limits the request's tokens; one that forbids every token is an error of the request.
    logprobs: None = none; 0 to 20 = of each token, and of that many likeliest ones.
    overflow: what to do with a prompt over the context: "error", or "truncate_left": drop what is oldest, keep the
        begin token, and leave room for max_tokens (None: a quarter of the context; at most half of it).
    tools: what a conversation's model may call: Tools, or mappings as chat APIs write them.
    tool_choice: "auto" = the model says whether it calls; "none"; "required" = at least one; or a tool's name.
    parallel_tool_calls: whether one turn may hold several calls.
    constrain_tools: hold calls to the tools' names and schemas while they are made. None: where that can be done
        (capabilities.structured), which True insists on. False: with tool_choice "auto" and no grammar, whatever the model
        writes.
    grammar: what limits the answer's text. With tools: a turn holds calls, or an answer that follows it.
    thinking: whether a conversation's model reasons before it answers.

    Of a model that makes a canvas of tokens at a time (capabilities.streams_drafts), and of no other:
    temperature scales the model's own schedule: None or 1 = as it is; 0 = the likeliest token in place of a drawn one.
    max_tokens None = as many as its manifest says.
    steps: the most denoising steps of a canvas, over which the schedule runs; None = as many as the manifest says, which
        are also the most.
    drafts: whether the deltas show each canvas after each of its steps.
    noise: in place of the seed's.
    What chooses or limits one token after the other is an error: top_k to repetition_penalty, logit_bias, mask, grammar,
        logprobs, a tool_choice but "auto".
    """

    prompt: "str | tuple[int, ...] | tuple[Message | Mapping[str, Any], ...]"
    chat_format: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: Mapping[int, float] | None = None
    seed: int | None = None
    stop: str | tuple[str, ...] = ()
    stop_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    mask: Callable[[], TokenMask] | None = None
    logprobs: int | None = None
    overflow: PromptOverflow = "error"
    tools: "tuple[Tool | Mapping[str, Any], ...]" = ()
    tool_choice: str = "auto"
    parallel_tool_calls: bool = True
    constrain_tools: bool | None = None
    grammar: "Grammar | None" = None
    thinking: bool = False
    steps: int | None = None
    drafts: bool = False
    noise: CanvasNoise | None = None


@dataclass(frozen=True)
class TokenLogprob:
    """Natural logarithms of the model's own probabilities: of the token made, and of the likeliest ones, best first."""

    id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Usage:
    """Tokens of the prompt, of those the ones whose keys and values were kept from before, and of the answer.

    reasoning_tokens: those of completion_tokens that reason.
    denoising_steps: of all canvases of the answer; 0 for a model that makes a token at a time.
    tokens_per_forward: tokens of the answer, its end token among them, for each of those steps; 0 where there are none.
    """

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    reasoning_tokens: int = 0
    denoising_steps: int = 0
    tokens_per_forward: float = 0.0


@dataclass(frozen=True)
class Timings:
    """Seconds: waiting for a place, running the prompt, from the request to the first token, from both to the last.

    The first token may come before the prompt has run, where a grammar leaves no choice of it.

    tokens_per_second: of the tokens after the first; 0 where there are none.

    Of a model that makes a canvas at a time: decode, and tokens_per_second of all tokens, from the end of the prompt on.
    """

    queue: float = 0.0
    prefill: float = 0.0
    first_token: float = 0.0
    decode: float = 0.0
    tokens_per_second: float = 0.0


@dataclass(frozen=True)
class Canvas:
    """A canvas of tokens after one of its denoising steps: a draft, all of which the next step may change.

    number: of the canvas, from 0. step: of its `steps` at most, from 1. done: this was its last step, and its tokens are
        the answer's, up to the end of that.
    text: what the likeliest tokens spell, up to the first end token.
    ids: the likeliest token of each position. settled: whether it was the likeliest before the step, too.
    tokens: what the next step begins with. accepted: whether that is a token drawn from the model's probabilities; any
        other is random.
    entropies: nats, of those probabilities.
    """

    number: int
    step: int
    steps: int
    done: bool
    text: str
    ids: tuple[int, ...]
    settled: tuple[bool, ...]
    tokens: tuple[int, ...]
    accepted: tuple[bool, ...]
    entropies: tuple[float, ...]

    @property
    def entropy(self) -> float:
        """Mean of the positions, nats."""
        return sum(self.entropies) / len(self.entropies)

    @property
    def accepted_share(self) -> float:
        """Of the positions, 0 to 1."""
        return sum(self.accepted) / len(self.accepted)


@dataclass(frozen=True)
class Delta:
    """What has come since the delta before: whole characters, whole calls, and the tokens up to there.

    text: of the answer alone, where the prompt is a conversation; else all that the tokens spell.
    reasoning: what the model says to itself. tool_calls: whole ones, and those that can't be read or were cut off,
        which nobody may run.
    canvas: of a request with drafts, after each denoising step, in a delta that holds nothing else.
    The last delta of a request has a finish_reason, usage and timings; no other has. stop: in that one, the stop string
        that ended the text.
    """

    text: str
    ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    finish_reason: FinishReason | None = None
    usage: Usage | None = None
    timings: Timings | None = None
    reasoning: str = ""
    tool_calls: "tuple[ToolCall | InvalidToolCall, ...]" = ()
    canvas: Canvas | None = None
    stop: str | None = None


@dataclass(frozen=True)
class GenerateResult:
    """A whole answer.

    text, reasoning: all that the deltas held.
    ids: all tokens made but an end token; those of a stop string are among them, its text is not in `text`.
    finish_reason: "tool_calls" where the model ended its turn and calls at least one tool.
    stop: the stop string, or the end token's id, that ended the text; None where something else did.
    logprobs: one for each of ids, where asked for.
    tool_calls: the whole ones; invalid_tool_calls: those that can't be read, or were cut off.
    """

    text: str
    ids: tuple[int, ...]
    finish_reason: FinishReason
    stop: str | int | None
    usage: Usage
    timings: Timings
    logprobs: tuple[TokenLogprob, ...] = ()
    reasoning: str = ""
    tool_calls: "tuple[ToolCall, ...]" = ()
    invalid_tool_calls: "tuple[InvalidToolCall, ...]" = ()


@dataclass(frozen=True)
class Capabilities:
    """What a model can do; adapters ask this and never a model type's name.

    chat: it has a chat format, so that a prompt may be a conversation. tools, reasoning: that format has calls and
    thoughts. structured: a grammar can limit what it makes.
    streams_drafts: it makes a canvas of tokens at a time, and a request may ask to see that form.
    prompts: names of the checkpoint's prompts; title_prompts: those of them with a place for a document's title.
    """

    embeds: bool = False
    generates: bool = False
    streams_drafts: bool = False
    tools: bool = False
    structured: bool = False
    reasoning: bool = False
    logprobs: bool = False
    modalities_in: tuple[str, ...] = ("text",)
    context_length: int = 0
    dimensions: tuple[int, ...] = ()
    prompts: tuple[str, ...] = ()
    title_prompts: tuple[str, ...] = ()
    chat: bool = False
