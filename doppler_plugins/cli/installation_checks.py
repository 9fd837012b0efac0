"""The checks of `doctor` that look at what is installed: libraries, variables, plugins, and whether models run."""

import os
import platform

from doppler_core.settings import EngineSettings
from doppler_plugins.cli.check import Check
from doppler_plugins.discovery import OWN_DISTRIBUTION, own_version

_EMBEDS, _CHATS, _DENOISES = "demo-embedding", "demo-chat", "demo-diffusion"
_FRAMEWORKS = ("langchain", "llama-index")  # the extras
_TOKENS, _STEPS = 8, 8


def python(_: EngineSettings) -> list[Check]:
    """Python, the system and this project, by version."""
    detail = f"{platform.python_version()} on {platform.platform()}, doppler-plugins {own_version()}"
    # Installers refuse older ones; a source tree on the path does not.
    if tuple(map(int, platform.python_version_tuple()[:2])) < (3, 11):
        return [Check("python", "problem", detail, "use Python 3.11 or newer")]
    return [Check("python", "ok", detail)]


def libraries(_: EngineSettings) -> list[Check]:
    """The versions of what this project needs, and what of it is missing."""
    from doppler_plugins.requirements import installed, requirements, unmet

    needed = requirements(OWN_DISTRIBUTION)
    if not needed:
        return [
            Check("libraries", "note", f"{OWN_DISTRIBUTION} was never installed: what it needs is unknown")
        ]
    beside = [one for extra in _FRAMEWORKS for one in requirements(OWN_DISTRIBUTION, extra)]
    versions = [(one.name, installed(one.name)) for one in (*needed, *beside)]
    found = [
        Check("libraries", "ok", ", ".join(f"{name} {version}" for name, version in versions if version))
    ]
    for requirement in needed:
        if lack := unmet(requirement):
            remedy = f"pip install '{requirement.name}{requirement.specifier}'"
            found.append(Check(f"library {requirement.name}", "problem", f"needs {lack}", remedy))
    return found


def variables(_: EngineSettings) -> list[Check]:
    """Which of our variables are set, and which look like ours and are read by nobody."""
    from doppler_plugins.variables import KNOWN, unknown_variables, what_to_do

    given = [name for name in KNOWN if name in os.environ]
    found = [Check("variables", "ok", ", ".join(given) or "none of DOPPLER_PLUGINS_* is set")]
    for name, near in unknown_variables().items():
        # Without a near name it may be a plugin's own.
        read = f"{name} is read by nobody: {what_to_do(near)}"
        found.append(
            Check("variables", "problem", read, f"rename it to {near}, or unset it")
            if near
            else Check("variables", "note", read)
        )
    return found


def plugins(_: EngineSettings) -> list[Check]:
    """Every plugin, imported."""
    from doppler_plugins.records import Policy
    from doppler_plugins.registry import build_registry

    policy = Policy.from_environment()
    records = build_registry(policy=Policy(policy.allow, policy.block)).check()
    problems = [record for record in records if record.is_problem]
    remedy = "update or uninstall it, or name it in DOPPLER_PLUGINS_BLOCK"
    found = [Check(f"plugin {record.name}", "problem", record.sentence, remedy) for record in problems]
    if not problems:
        detail = ", ".join(f"{record.name} ({record.status})" for record in records)
        found = [Check("plugins", "ok", detail)]
    for record in records:
        notes = record.warnings if record.status != "unavailable" else (f"optional, {record.reason}",)
        found += [Check(f"plugin {record.name}", "note", note) for note in notes]
    return found


def embedding(settings: EngineSettings) -> list[Check]:
    """A bundled model embeds a text."""
    import numpy as np

    from doppler_plugins.opening import open_engine

    with open_engine(_EMBEDS, settings) as engine:
        result = engine.embed(["A cup of tea cools faster than a full pot."])
        length = float(np.linalg.norm(result.vectors[0]))
        detail = f"{_EMBEDS} on {engine.device}: {result.tokens[0]} tokens, a vector of length {length:.4f}"
    # The vector is divided by its length in f32: five digits hold.
    return [_numbers("embedding", abs(length - 1) < 1e-4, detail)]


def generating(settings: EngineSettings) -> list[Check]:
    """A bundled model answers."""
    from doppler_plugins.opening import open_engine

    with open_engine(_CHATS, settings) as engine:
        greeting = [{"role": "user", "content": "Hello!"}]
        result = engine.generate(greeting, max_tokens=_TOKENS, temperature=0, ignore_eos=True, logprobs=0)
        logprobs = [one.logprob for one in result.logprobs or ()]
        detail = (
            f"{_CHATS} on {engine.device}: {len(result.ids)} tokens, {result.timings.tokens_per_second:.0f}/s"
        )
    # NaN is neither; a logarithm in f32 may be above 0 by its rounding.
    sound = len(logprobs) == _TOKENS and all(-100 < one < 1e-4 for one in logprobs)
    return [_numbers("generating", sound, detail)]


def denoising(settings: EngineSettings) -> list[Check]:
    """A bundled model makes a canvas."""
    from doppler_core.engine.request import GenerateRequest
    from doppler_plugins.opening import open_engine

    with open_engine(_DENOISES, settings) as engine:
        greeting = ({"role": "user", "content": "Hello!"},)
        handle = engine.submit(GenerateRequest(greeting, steps=_STEPS, seed=1, drafts=True))
        canvases = [delta.canvas for delta in handle if delta.canvas is not None]
        result = handle.result()
        steps, rate = result.usage.denoising_steps, result.timings.tokens_per_second
        detail = f"{_DENOISES} on {engine.device}: {len(result.ids)} tokens in {steps} steps, {rate:.0f}/s"
    # NaN is neither; an entropy in f32 may be below 0 by its rounding.
    sound = bool(canvases) and all(-1e-3 < nats < 100 for one in canvases for nats in one.entropies)
    return [_numbers("denoising", sound, detail)]


def _numbers(name: str, sound: bool, detail: str) -> Check:
    if sound:
        return Check(name, "ok", detail)
    return Check(name, "problem", detail, "try device='numpy', and report the GPU adapter's name")
