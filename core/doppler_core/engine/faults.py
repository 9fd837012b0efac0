"""What the device says in place of a token, as the error of the request that it was for."""

from doppler_core.errors import DeviceError, DopplerError, InputError
from doppler_core.plan.sampling import BROKEN, NO_TOKEN


def fault_of(token: int) -> DopplerError | None:
    """None for what is a token."""
    if token == NO_TOKEN:
        return InputError("no token is allowed: logit_bias or the mask forbids every one")
    return broken() if token == BROKEN else None


def broken() -> DeviceError:
    """Logits are not numbers."""
    return DeviceError(
        "the logits are not numbers: the weights hold such values, or this device's kernels overflow "
        "(`doppler-plugins verify`, then device='numpy', tell which)"
    )
