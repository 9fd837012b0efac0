"""What there is to tell of an answer that is made in canvases: plain data, the same for every framework.

Takes core's canvases and counts; gives mappings that become JSON as they are. Of other models' answers nothing is told.
"""

from typing import Any

from doppler_core.engine.request import Canvas, Usage


def draft_of(canvas: Canvas) -> dict[str, Any]:
    """A canvas after a step. text: what it would say now; entropy: mean of its positions, nats; accepted: 0 to 1."""
    return {
        "canvas": canvas.number,
        "step": canvas.step,
        "steps": canvas.steps,
        "done": canvas.done,
        "text": canvas.text,
        "entropy": canvas.entropy,
        "accepted": canvas.accepted_share,
    }


def canvas_figures(usage: Usage | None) -> dict[str, Any]:
    """Steps of all canvases of an answer, and tokens for each of them."""
    if usage is None or not usage.denoising_steps:
        return {}
    return {"denoising_steps": usage.denoising_steps, "tokens_per_forward": usage.tokens_per_forward}
