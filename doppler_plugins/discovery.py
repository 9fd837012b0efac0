"""Entry points of the installed distributions, as plain data. Nothing of a plugin is imported here.

Takes the import path (or another list of folders), gives declarations in a fixed order: the built-ins, then by
name and distribution. A distribution whose metadata can't be read becomes a declaration with its reason.
"""

import importlib.metadata
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

OWN_DISTRIBUTION = "doppler-plugins"

Group = Literal["doppler_plugins", "doppler_plugins.model_types", "doppler_plugins.adapters"]
HOOKS: Group = "doppler_plugins"
MODEL_TYPES: Group = "doppler_plugins.model_types"
ADAPTERS: Group = "doppler_plugins.adapters"
GROUPS: tuple[Group, ...] = (HOOKS, MODEL_TYPES, ADAPTERS)

#: What pyproject declares, for a source tree that was never installed and for metadata older than the code.
BUILTINS: dict[Group, dict[str, str]] = {
    MODEL_TYPES: {
        "causal": "doppler_plugins.model_types.causal:CausalModelType",
        "diffusion_gemma": "doppler_plugins.model_types.diffusion:DiffusionModelType",
        "embedding": "doppler_plugins.model_types.embedding:EmbeddingModelType",
    },
    ADAPTERS: {
        "langchain.chat": "doppler_plugins.langchain:ChatDoppler",
        "langchain.embeddings": "doppler_plugins.langchain:DopplerEmbeddings",
        "langchain.llm": "doppler_plugins.langchain:DopplerLLM",
        "llama_index.embedding": "doppler_plugins.llama_index:DopplerEmbedding",
        "llama_index.llm": "doppler_plugins.llama_index:DopplerLLM",
    },
}

_CLASS = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_MODULE = re.compile(r"[A-Za-z_][\w.]*(:[A-Za-z_][\w.]*)?")


@dataclass(frozen=True)
class Declaration:
    """One entry point: `name` in canonical form, `value` as written; `problem` if it can't be used at all."""

    group: Group
    name: str
    value: str
    distribution: str
    version: str
    problem: str = ""

    @property
    def builtin(self) -> bool:
        """True for what this project itself declares."""
        return self.distribution == OWN_DISTRIBUTION

    @property
    def origin(self) -> str:
        """How messages name where it comes from."""
        return f"{self.distribution} {self.version}"


def canonical(name: str) -> str:
    """The form in which names are compared: `Diffusion-Gemma` is `diffusion_gemma`."""
    return name.strip().casefold().replace("-", "_")


def load_object(value: str) -> Any:
    """Import what `module` or `module:attribute` names."""
    return importlib.metadata.EntryPoint("", value, "").load()


def is_class_path(value: str) -> bool:
    """True for `module:Class`."""
    return _CLASS.fullmatch(value) is not None


def own_version() -> str:
    """The version of this project, or `0+source` where it was never installed."""
    try:
        return importlib.metadata.version(OWN_DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return "0+source"


def find_declarations(path: Sequence[str] | None = None) -> tuple[Declaration, ...]:
    """Every declaration of our groups on `path` (None = the import path), in a fixed order."""
    found = list(_installed(path))
    own = {(item.group, item.name) for item in found if item.builtin}
    for group, names in BUILTINS.items():
        for name, value in names.items():
            if (group, name) not in own:
                found.append(Declaration(group, name, value, OWN_DISTRIBUTION, own_version()))
    return tuple(sorted(found, key=_order))


def _order(item: Declaration) -> tuple[bool, int, str, str, str]:
    return (not item.builtin, GROUPS.index(item.group), item.name, item.distribution, item.value)


def _installed(path: Sequence[str] | None) -> Iterator[Declaration]:
    distributions: Iterable[importlib.metadata.Distribution] = (
        importlib.metadata.distributions()
        if path is None
        else importlib.metadata.distributions(path=list(path))
    )
    seen: set[str] = set()
    for distribution in distributions:
        # The first of a name on the path is the one Python imports; a checkout's egg-info often comes second.
        name = _distribution_name(distribution)
        if name in seen:
            continue
        seen.add(name)
        yield from _declared(distribution, name)


def _declared(distribution: importlib.metadata.Distribution, name: str) -> Iterator[Declaration]:
    try:
        text = distribution.read_text("entry_points.txt") or ""
        if not any(group in text for group in GROUPS):
            return
        points = [point for point in distribution.entry_points if point.group in GROUPS]
    except Exception as error:  # noqa: BLE001 - the reason is listed
        reason = f"entry_points.txt: {error}"
        yield Declaration(HOOKS, canonical(name), "", name, _version(distribution), reason)
        return
    version = _version(distribution)
    for point in points:
        group = GROUPS[GROUPS.index(point.group)]
        value = "".join(point.value.partition("[")[0].split())  # extras of an entry point mean nothing to us
        pattern, form = (_MODULE, "module") if group == HOOKS else (_CLASS, "module:Class")
        problem = "" if pattern.fullmatch(value) else f"entry point {point.value!r}: expected {form}"
        yield Declaration(group, canonical(point.name), value, name, version, problem)


def _version(distribution: importlib.metadata.Distribution) -> str:
    try:
        return str(distribution.version or "unknown")
    except Exception:  # noqa: BLE001 - metadata of any kind lies on the path, and a version is only shown
        return "unknown"


def _distribution_name(distribution: importlib.metadata.Distribution) -> str:
    try:
        name = distribution.metadata["Name"]
    except Exception:  # noqa: BLE001 - an unreadable METADATA file
        name = None
    return (
        re.sub(r"[-_.]+", "-", name).lower() if name else f"unnamed ({getattr(distribution, '_path', '?')})"
    )
