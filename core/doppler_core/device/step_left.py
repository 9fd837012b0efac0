"""What the last step left on the device for one that goes on from it, as far as the host knows: not the tokens."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from doppler_core.device.executor import StepTables
from doppler_core.errors import InputError
from doppler_core.plan.op import Op


@dataclass(frozen=True)
class Left:
    """The tables of the next step of a phase. Their token ids are those of an earlier step."""

    phase: str
    tables: StepTables


def advances(ops: Sequence[Op]) -> bool:
    """Whether one of the ops makes the next step's rows. Of what else writes rows nothing goes on: tokens of a canvas."""
    return any(op.meaning == "advance" for op in ops)


def advanced(phase: str, tables: StepTables, ops: Sequence[Op], steps: int) -> Left | None:
    """What `steps` steps that ran `ops` leave; None where no op puts the sampled token into the next one's rows."""
    if not advances(ops):
        return None
    rows = tables.rows.copy()
    rows[:, 1] += steps
    return Left(phase, replace(tables, rows=rows))


def left_by(left: Left | None, phase: str) -> StepTables:
    """The tables that a step of this phase goes on with. InputError where the last step left none."""
    if left is None or left.phase != phase:
        raise InputError(
            f"nothing to go on from in phase {phase!r}: expected that the step before was of this phase and advanced"
        )
    return left.tables
