"""From what a user calls a model to a folder or GGUF file: a bundled or cached name, a path, `hf:`, a plugin's scheme.

It tells artifacts, checkpoints and GGUF files apart by the file there must be; it reads nothing else of them.
"""

import logging
import re
from difflib import get_close_matches
from pathlib import Path

from doppler_core.errors import DopplerError, ModelNotFoundError
from doppler_core.settings import EngineSettings, cache_dir, data_dir
from doppler_plugins import hub
from doppler_plugins.discovery import canonical
from doppler_plugins.registry import plugins

logger = logging.getLogger(__name__)

_EXPECTED = "the folder of an artifact or of a Hugging Face checkpoint, or a GGUF file"
#: A repository of the Hub, bare, behind another spelling of the prefix, or as its page's address.
_HUB_NAME = re.compile(
    r"(?:https?://huggingface\.co/|hf:)?([\w-][\w.-]*/[\w-][\w.-]*(?:@\S+)?)/?", re.IGNORECASE
)
_LATER_PART = re.compile(r"-(?!00001)\d{5}-of-\d{5}\.gguf$", re.IGNORECASE)


def is_artifact(folder: Path) -> bool:
    """True for a converted folder."""
    return (folder / "artifact.json").is_file()


def is_checkpoint(folder: Path) -> bool:
    """True for a publisher's folder."""
    return (folder / "config.json").is_file()


def gguf_file(path: Path) -> Path | None:
    """The GGUF file that a path is, or the one that a folder holds; of a model in parts, the first part."""
    from doppler_core.weights.gguf import is_gguf

    if path.is_file():
        return path if is_gguf(path) else None
    found = _gguf_files(path)
    return found[0] if len(found) == 1 else None


def bundled_models() -> dict[str, Path]:
    """The models that come with the package, by canonical name."""
    return _artifacts(data_dir("models"))


def cached_models(settings: EngineSettings) -> dict[str, Path]:
    """The artifacts in the cache, by name."""
    return {path.name: path for path in _artifacts(cache_dir(settings)).values()}


def locate(model: str, settings: EngineSettings) -> Path:
    """The folder of an artifact or a checkpoint, or a GGUF file; ModelNotFoundError with the nearest known names."""
    if model.startswith(hub.PREFIX):
        return hub.download(model, settings.revision, settings.offline)
    if found := bundled_models().get(canonical(model)):
        return found
    if path := _existing(model):
        return _checked(path)
    if found := cached_models(settings).get(model):
        return found
    if found := _ask_plugins(model, settings):
        return found
    if found := _begun_with(model, settings):
        return found
    raise ModelNotFoundError(_not_found(model, settings))


def _artifacts(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        return {}
    return {canonical(path.name): path for path in sorted(folder.iterdir()) if is_artifact(path)}


def _existing(model: str) -> Path | None:
    """The path that a model's name is, if there is one; a name may be anything, also what no path can be."""
    try:
        path = Path(model).expanduser()
        return path if model and path.exists() else None
    except (OSError, RuntimeError, ValueError):
        return None


def _checked(path: Path) -> Path:
    if problem := _problem(path):
        raise ModelNotFoundError(problem)
    return _opened_as(path)


def _opened_as(path: Path) -> Path:
    """The path itself, or the GGUF file of a folder that is nothing else."""
    return path if is_artifact(path) or is_checkpoint(path) else gguf_file(path) or path


def _gguf_files(folder: Path) -> list[Path]:
    """The GGUF models of a folder: of each model in parts, the first part."""
    files = sorted(path for path in folder.glob("*") if path.suffix.lower() == ".gguf" and path.is_file())
    return [path for path in files if not _LATER_PART.search(path.name)]


def _problem(path: Path) -> str:
    """Why a path is not a model, or an empty string."""
    if not path.exists():
        return f"{path}: expected {_EXPECTED}; it does not exist"
    if path.is_dir():
        found = _gguf_files(path)
        if is_artifact(path) or is_checkpoint(path) or len(found) == 1:
            return ""
        if found:
            names = ", ".join(file.name for file in found)
            return f"{path} holds {len(found)} GGUF models: give the path of one of them ({names})"
        return (
            f"{path}: expected an artifact (artifact.json), a Hugging Face checkpoint (config.json, *.safetensors) "
            "or a GGUF file (*.gguf), and the folder has none of them"
        )
    if gguf_file(path):
        return ""
    if path.suffix in (".safetensors", ".json"):
        return f"{path} is one file of a model: give its folder, {path.parent}"
    return f"{path}: expected {_EXPECTED}, found another file"


def _ask_plugins(model: str, settings: EngineSettings) -> Path | None:
    manager = plugins().manager
    for implementation in manager.implementations("doppler_resolve_model"):
        try:
            found = implementation(ref=model, settings=settings)
            path = None if found is None else Path(found)
        except DopplerError:
            raise  # the plugin knows the reference and says what is wrong with it
        except Exception:
            logger.warning("plugin %s: doppler_resolve_model failed", implementation.plugin, exc_info=True)
            continue
        if path is not None and (problem := _problem(path)):
            raise ModelNotFoundError(
                f"{problem} (the plugin {implementation.plugin} gave this path for {model!r}: "
                "look there, or set DOPPLER_PLUGINS_BLOCK to do without it)"
            )
        if path is not None:
            return _opened_as(path)
    return None


def _begun_with(model: str, settings: EngineSettings) -> Path | None:
    """The one cached artifact whose name begins with `model`; several are an error, it can't be known which is meant."""
    found = {name: path for name, path in cached_models(settings).items() if model and name.startswith(model)}
    if len(found) > 1:
        raise ModelNotFoundError(
            f"model {model!r}: {len(found)} cached models have a name that begins so: {', '.join(sorted(found))}; "
            "give more of the name"
        )
    return next(iter(found.values()), None)


def _near_paths(model: str) -> list[str]:
    """The models in the folder that a path leads to whose names are like the one it ends with, written as it is."""
    try:
        path = Path(model).expanduser()
        names = get_close_matches(path.name, [one.name for one in path.parent.iterdir()], n=3)
        return [str(path.with_name(name)) for name in names if not _problem(path.with_name(name))]
    except (OSError, RuntimeError, ValueError):
        return []


def _not_found(model: str, settings: EngineSettings) -> str:
    bundled, cached = bundled_models(), cached_models(settings)
    known = [path.name for path in bundled.values()] + sorted(cached)
    near = _near_paths(model) or get_close_matches(model, known, n=3)
    near = near or get_close_matches(model.rpartition("/")[2], known, n=3)
    hints = [f"did you mean {' or '.join(near)}?"] if near else []
    if repository := _HUB_NAME.fullmatch(model):
        hints.append(f"for the Hugging Face Hub write {hub.PREFIX}{repository[1]}")
    hints.append(f"bundled: {', '.join(path.name for path in bundled.values()) or 'none'}")
    return f"model {model!r}: no such path and no such name; {'; '.join(hints)}{plugins().not_loaded()}"
