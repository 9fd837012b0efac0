"""Kernels that choose a token from logits, and keep count of those chosen."""

from doppler_core.plan.signature import Signature

SIGNATURES: tuple[Signature, ...] = ()
