"""The canvases of one answer: how each step of them is set, what they draw, when one is done. It knows no device.

Formulas: DiffusionGemma as published (transformers' generation_diffusion_gemma); of step n of N, counted down,
    temperature   (tMin + (tMax - tMin) * n / N) * the request's own
    done          n = 1, or the likeliest tokens are those of each of the last `stabilityThreshold` steps, and the mean
                  entropy is below `confidenceThreshold`
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from doppler_core.engine.request import Canvas, CanvasNoise
from doppler_core.errors import InputError
from doppler_core.plan.canvas import (
    ACCEPTED,
    ENTROPY,
    LIKELIEST,
    NOTHING,
    TOKEN,
    CanvasStep,
    first_tokens,
    step_noise,
)
from doppler_core.plan.canvas_settings import CanvasSettings

Words = npt.NDArray[np.uint32]

_BELOW_ONE = np.nextafter(np.float32(1), np.float32(0))


@dataclass(frozen=True)
class CanvasChoice:
    """How the tokens of an answer's canvases are chosen.

    settings: the model's own. vocabulary: tokens there are. steps: of a canvas at most. scale: of temperatures. greedy:
    the likeliest tokens in place of drawn ones. noise: in place of the seed's.
    """

    settings: CanvasSettings
    vocabulary: int
    steps: int
    seed: int
    scale: float = 1.0
    greedy: bool = False
    noise: CanvasNoise | None = None

    def step(self, taken: int) -> CanvasStep:
        """The settings of the step after so many."""
        its, left = self.settings, self.steps - taken
        temperature = (its.t_min + (its.t_max - its.t_min) * left / self.steps) * self.scale
        return CanvasStep(temperature, self.seed, left, its.entropy_bound, self.greedy)


@dataclass(eq=False)
class Sketch:
    """A canvas under way.

    number: of the answer's, from 0. position: of its first token. length: its tokens. taken: steps. still: of the last
    ones, how many left the likeliest tokens as they were. likeliest: what those are, as far as somebody looked.
    """

    choice: CanvasChoice
    number: int
    position: int
    length: int
    taken: int = 0
    still: int = 0
    likeliest: tuple[int, ...] = ()

    @property
    def positions(self) -> npt.NDArray[np.int64]:
        """Of its tokens."""
        return self.position + np.arange(self.length)

    def first(self) -> Words:
        """Its lines of the state `canvas` (plan.canvas) before the first step, [length, 4]."""
        lines = np.zeros((self.length, 4), np.uint32)
        lines[:, LIKELIEST] = NOTHING
        choice = self.choice
        if choice.noise is None:
            lines[:, TOKEN] = first_tokens(choice.seed, self.positions, choice.vocabulary)
        else:
            lines[:, TOKEN] = self._tokens("first", choice.noise.first(self.number))
        return lines

    def settings(self) -> CanvasStep:
        """Of its next step."""
        return self.choice.step(self.taken)

    def noise(self) -> Words:
        """Its lines of the state `noise` for the next step, [length, 2]: what a device makes of the seed, or what is
        given in its place."""
        choice = self.choice
        if choice.noise is None:
            return step_noise(choice.seed, self.settings().left, self.positions, choice.vocabulary)
        shares, tokens = choice.noise.step(self.number, self.taken + 1)
        u = np.asarray(shares, np.float64)
        if u.shape != (self.length,) or not ((u >= 0) & (u < 1)).all():
            raise InputError(
                f"noise.step: expected {self.length} numbers from 0 to 1, without 1, got {shares!r}"
            )
        words = np.minimum(u.astype(np.float32), _BELOW_ONE).view(np.uint32)
        return np.stack([words, self._tokens("step", tokens)], -1)

    def note(self, progress: Words) -> bool:
        """A step was taken, and gave this line of the plan's `progress`: whether it was the last."""
        self.taken += 1
        self.still = self.still + 1 if progress[1] == 0 else 0
        its = self.choice.settings
        sure = float(progress[:1].view(np.float32)[0]) < its.confidence_threshold
        return self.taken == self.choice.steps or (sure and self.still >= its.stability_threshold)

    def drawn(self, lines: Words, text: str, done: bool) -> Canvas:
        """What it shows after a step that left these lines of the state `canvas`, [length, 4]."""
        before, self.likeliest = self.likeliest, tuple(lines[:, LIKELIEST].tolist())
        return Canvas(
            self.number,
            self.taken,
            self.choice.steps,
            done,
            text,
            self.likeliest,
            tuple(map(int.__eq__, before, self.likeliest)) if before else (False,) * self.length,
            tuple(lines[:, TOKEN].tolist()),
            tuple(map(bool, lines[:, ACCEPTED].tolist())),
            tuple(np.ascontiguousarray(lines[:, ENTROPY]).view(np.float32).tolist()),
        )

    def _tokens(self, source: str, tokens: object) -> Words:
        found = np.asarray(tokens)
        vocabulary = self.choice.vocabulary
        is_whole = found.shape == (self.length,) and found.dtype.kind in "iu"
        if not is_whole or not ((found >= 0) & (found < vocabulary)).all():
            raise InputError(
                f"noise.{source}: expected {self.length} token ids, 0 to {vocabulary - 1}, got {tokens!r}"
            )
        return found.astype(np.uint32)
