"""Gemma 4's control tokens, by their texts: a tokenizer is asked for their ids."""

from doppler_core.text.chat.form import Control

BOS = Control("<bos>")
TURN, TURN_END = Control("<|turn>"), Control("<turn|>")
THINK, CHANNEL, CHANNEL_END = Control("<|think|>"), Control("<|channel>"), Control("<channel|>")
TOOL, TOOL_END = Control("<|tool>"), Control("<tool|>")
TOOL_CALL, TOOL_CALL_END = Control("<|tool_call>"), Control("<tool_call|>")
TOOL_RESPONSE, TOOL_RESPONSE_END = Control("<|tool_response>"), Control("<tool_response|>")
QUOTE = Control('<|"|>')
AROUND_THOUGHT = CHANNEL.token, CHANNEL_END.token
THOUGHT = "thought\n"  # what a channel of thoughts begins with

ENDS = ("<eos>", TURN_END.token, TOOL_RESPONSE.token)
CALLS = (TOOL_CALL.token, TOOL_CALL_END.token, QUOTE.token)
_CONTROLS = (
    *(BOS, TURN, TURN_END, THINK, CHANNEL, CHANNEL_END, TOOL, TOOL_END, TOOL_CALL, TOOL_CALL_END),
    *(TOOL_RESPONSE, TOOL_RESPONSE_END, QUOTE),
)
# All that the format may hold, also what is for later: no text may become an image either.
MARKS = (
    *(control.token for control in _CONTROLS),
    *("<eos>", "<|image>", "<|image|>", "<image|>", "<|audio>", "<|audio|>", "<audio|>", "<|video|>"),
)
# Of prompts alone: what begins a text, a turn, a declaration, and what was seen or heard.
UNSAID = tuple(mark for mark in MARKS if mark not in (*ENDS, *CALLS, *AROUND_THOUGHT))
