"""How the tokens of a request's canvases are chosen: what it asks for, else what the manifest says.

A canvas's tokens are drawn all at once from what one step makes of each of them, so that nothing which looks at one
token after the other can be had: those wishes are refused, with what there is in their place.
"""

from collections.abc import Mapping

from doppler_core.engine.canvases import CanvasChoice
from doppler_core.engine.choice import seed_of
from doppler_core.engine.request import GenerateRequest
from doppler_core.errors import InputError
from doppler_core.plan.canvas_settings import CanvasSettings

# Of a scale: f32 has it times any temperature of a manifest, and 1 / that.
_SMALLEST, _LARGEST = 2.0**-64, 2.0**64

_DRAWING = "canvases are drawn by temperature, steps and seed alone"
_LIMITING = (
    "nothing limits a canvas (capabilities.structured is False): ask for the form in the prompt, and check it"
)

# By field: the values that ask for nothing, and what is said of any other.
_REFUSED: Mapping[str, tuple[tuple[object, ...], str]] = {
    "top_k": ((None, 0), _DRAWING),
    "top_p": ((None, 1), _DRAWING),
    "min_p": ((None, 0), _DRAWING),
    "presence_penalty": ((None, 0), _DRAWING),
    "frequency_penalty": ((None, 0), _DRAWING),
    "repetition_penalty": ((None, 1), _DRAWING),
    "logit_bias": ((None, {}), _DRAWING),
    "logprobs": (
        (None,),
        "a canvas has no probabilities of one token after the other: drafts show entropies",
    ),
    "mask": ((None,), _LIMITING),
    "grammar": ((None,), _LIMITING),
    "tool_choice": (("auto", "none"), "the model itself says whether it calls: expected 'auto'"),
}
_CANVAS_WISHES: Mapping[str, object] = {"steps": None, "drafts": False, "noise": None}


def choose_canvases(request: GenerateRequest, settings: CanvasSettings, vocabulary: int) -> CanvasChoice:
    """The choice of a request that has been checked. InputError for what canvases can't be held to."""
    for name, (neutral, reason) in _REFUSED.items():
        value = getattr(request, name)
        if value not in neutral:
            what = f"{name}={value!r}" if isinstance(value, int | float | str) else name
            raise InputError(f"{what}: {reason}")
    if request.tools and request.tool_choice == "none":
        raise InputError("tool_choice='none': leave the tools out: nothing keeps a canvas from calling them")
    if request.tools and request.constrain_tools:
        raise InputError(f"constrain_tools=True: {_LIMITING}")
    most = settings.max_denoising_steps
    steps = most if request.steps is None else int(request.steps)
    if steps > most:
        raise InputError(f"steps={steps}: this model takes {most} at most for a canvas")
    scale = 1.0 if request.temperature is None else float(request.temperature)
    greedy = scale < _SMALLEST
    return CanvasChoice(
        settings,
        vocabulary,
        steps,
        seed_of(request),
        1.0 if greedy else min(scale, _LARGEST),
        greedy,
        request.noise,
    )


def refuse_canvas_wishes(request: GenerateRequest) -> None:
    """InputError for what a model can't do that makes one token after the other."""
    for name, unasked in _CANVAS_WISHES.items():
        if getattr(request, name) != unasked:
            raise InputError(
                f"{name}: this model makes one token after the other, and no canvases: leave it out "
                "(capabilities.streams_drafts tells)"
            )
