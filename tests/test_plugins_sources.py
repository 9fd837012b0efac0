"""What a user calls a model leads to its folder, or to a message that says what to do."""

import errno
import os
import socket
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import errors
from hypothesis import example, given
from hypothesis import strategies as st
from plugin_fakes import write_distribution

from doppler_core.errors import DiskSpaceError, DopplerError, ModelNotFoundError
from doppler_core.settings import EngineSettings
from doppler_plugins import hub, sources
from doppler_plugins import registry as registry_module
from doppler_plugins.sources import locate


@pytest.fixture
def settings(tmp_path: Path) -> EngineSettings:
    """Settings with a cache of their own."""
    return EngineSettings(cache_dir=str(tmp_path / "cache"), offline=True)


def folder_with(path: Path, *names: str) -> Path:
    path.mkdir(parents=True)
    for name in names:
        (path / name).write_text("{}")
    return path


def test_a_path_is_an_artifact_or_a_checkpoint(tmp_path: Path, settings: EngineSettings) -> None:
    artifact = folder_with(tmp_path / "artifact", "artifact.json")
    checkpoint = folder_with(tmp_path / "checkpoint", "config.json")
    assert locate(str(artifact), settings) == artifact
    assert locate(str(checkpoint), settings) == checkpoint


def test_a_bundled_name_is_found_whatever_its_spelling(
    tmp_path: Path, settings: EngineSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = tmp_path / "models"
    bundled = folder_with(models / "demo-embedding", "artifact.json")
    monkeypatch.setattr(sources, "data_dir", lambda kind: models)
    for name in ("demo-embedding", "demo_embedding", "Demo-Embedding"):
        assert locate(name, settings) == bundled
    with pytest.raises(ModelNotFoundError, match="did you mean demo-embedding"):
        locate("demo-embeding", settings)


def test_a_cached_name_is_found(settings: EngineSettings) -> None:
    assert settings.cache_dir
    cached = folder_with(Path(settings.cache_dir) / "some-model-f16-0123456789ab", "artifact.json")
    assert locate(cached.name, settings) == cached
    with pytest.raises(ModelNotFoundError, match=f"did you mean {cached.name}"):
        locate("some-modle-f16-0123456789ab", settings)


def test_a_misspelt_path_offers_the_models_beside_it(
    tmp_path: Path, settings: EngineSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gemma-q4_k_m.gguf").write_bytes(b"GGUF")
    (tmp_path / "gemma-q4_k_m.text").write_bytes(b"no model")
    folder_with(tmp_path / "artifact", "artifact.json")
    monkeypatch.chdir(tmp_path)
    for misspelt, meant in (
        (f"{tmp_path}/gemma-q4_k_n.gguf", f"{tmp_path}/gemma-q4_k_m.gguf"),
        ("gemma-q4_k_m.guf", "gemma-q4_k_m.gguf"),
        ("./artefact", "artifact"),
        ("no-such-folder/demo-embeding", "demo-embedding"),
    ):
        with pytest.raises(ModelNotFoundError) as raised:
            locate(misspelt, settings)
        assert f"did you mean {meant}?" in str(raised.value)


def test_the_begin_of_a_cached_name_is_enough_where_one_alone_begins_so(settings: EngineSettings) -> None:
    assert settings.cache_dir
    cache = Path(settings.cache_dir)
    short, long = (
        folder_with(cache / name, "artifact.json")
        for name in ("some-model-f16", "some-model-f16-0123456789ab")
    )
    assert locate("some-model-f16-", settings) == long
    assert locate("some-model-f16", settings) == short  # a whole name is never a begin
    with pytest.raises(ModelNotFoundError, match=f"2 cached .*: {short.name}, {long.name}; give more"):
        locate("some-model", settings)
    with pytest.raises(ModelNotFoundError, match="no such name"):
        locate("", settings)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.mkdir(), "the folder has none of them"),
        (lambda path: path.write_bytes(b"GGML"), "or a GGUF file, found another file"),
    ],
)
def test_what_is_no_model_is_told_what_was_expected(
    tmp_path: Path, settings: EngineSettings, make: Any, reason: str
) -> None:
    make(tmp_path / "thing")
    with pytest.raises(ModelNotFoundError, match=reason):
        locate(str(tmp_path / "thing"), settings)


def test_a_single_weight_file_leads_to_its_folder(tmp_path: Path, settings: EngineSettings) -> None:
    folder_with(tmp_path / "model", "model.safetensors")
    with pytest.raises(ModelNotFoundError, match=f"give its folder, {tmp_path / 'model'}"):
        locate(str(tmp_path / "model" / "model.safetensors"), settings)


@pytest.mark.parametrize("before", ["", "HF:", "https://huggingface.co/"])
@pytest.mark.parametrize("behind", ["", "@main"])
def test_a_hub_name_without_its_prefix_is_recognised(
    settings: EngineSettings, before: str, behind: str
) -> None:
    name = f"google/embeddinggemma-300m{behind}"
    with pytest.raises(ModelNotFoundError, match=f"write hf:{name};"):
        locate(before + name, settings)


@pytest.mark.parametrize("name", ["../google/model", "~/model", "a/b/c", "store:model", "a b/c"])
def test_what_can_not_be_a_hub_name_is_taken_for_none(settings: EngineSettings, name: str) -> None:
    with pytest.raises(ModelNotFoundError) as raised:
        locate(name, settings)
    assert "Hugging Face Hub" not in str(raised.value)


@given(st.text(max_size=40).filter(lambda text: not Path(text.replace("\0", "")).exists()))
@example("")
@example("~nobody-has-this-name/model")
@example("nul\0nul")
@example("long" * 5000)
@example("lone \ud800 surrogate")
def test_any_other_text_is_a_model_not_found(text: str) -> None:
    settings = EngineSettings(cache_dir=os.devnull, offline=True)
    with pytest.raises(ModelNotFoundError):
        locate(text, settings)


def resolver(folder: Path, body: str, name: str = "resolver") -> None:
    text = f"""
        from pathlib import Path
        import doppler_plugins

        @doppler_plugins.hookimpl
        def doppler_resolve_model(ref, settings):
            {body}
    """
    module = f"{name}_{folder.name.replace('-', '_')}_module"
    write_distribution(folder, name, {"doppler_plugins": {name: module}}, {module: text})


def test_a_plugin_resolves_its_own_scheme(
    tmp_path: Path, settings: EngineSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = folder_with(tmp_path / "model", "config.json")
    resolver(tmp_path / "one", "raise RuntimeError('not today')", name="aaa")
    resolver(tmp_path / "two", f"return Path({str(model)!r}) if ref.startswith('shelf:') else None")
    monkeypatch.syspath_prepend(tmp_path / "one")
    monkeypatch.syspath_prepend(tmp_path / "two")
    monkeypatch.setattr(registry_module, "_registry", None)
    assert locate("shelf:third-from-left", settings) == model
    with pytest.raises(ModelNotFoundError):
        locate("cupboard:second", settings)


def test_what_a_plugin_says_on_purpose_is_what_the_user_sees(
    tmp_path: Path, settings: EngineSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = (
        "from doppler_core.errors import ModelNotFoundError; raise ModelNotFoundError('the shelf is empty')"
    )
    resolver(tmp_path / "three", body)
    monkeypatch.syspath_prepend(tmp_path / "three")
    monkeypatch.setattr(registry_module, "_registry", None)
    with pytest.raises(ModelNotFoundError, match="the shelf is empty"):
        locate("shelf:any", settings)


def test_a_path_that_a_plugin_gives_and_is_no_model_is_told_with_the_plugins_name(
    tmp_path: Path, settings: EngineSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    away, empty = tmp_path / "away", folder_with(tmp_path / "empty")
    resolver(tmp_path / "four", f"return {str(away)!r} if ref == 'shelf:away' else {str(empty)!r}")
    monkeypatch.syspath_prepend(tmp_path / "four")
    monkeypatch.setattr(registry_module, "_registry", None)
    by = r".*the plugin resolver gave this path for 'shelf:"
    with pytest.raises(ModelNotFoundError, match=f"{away}: .* does not exist{by}away"):
        locate("shelf:away", settings)
    with pytest.raises(ModelNotFoundError, match=f"{empty}: .* has none of them{by}empty"):
        locate("shelf:empty", settings)


@pytest.mark.parametrize(
    ("ref", "parts"),
    [
        ("hf:google/embeddinggemma-300m", ("google/embeddinggemma-300m", None, None)),
        ("hf:a.b/c_d-e@v1.0", ("a.b/c_d-e", None, "v1.0")),
        ("hf:org/name@refs/pr/7", ("org/name", None, "refs/pr/7")),
        ("hf:org/name/sub/m-Q4_0.gguf@v1", ("org/name", "sub/m-Q4_0.gguf", "v1")),
    ],
)
def test_a_hub_reference_has_a_repository_and_perhaps_a_revision(
    ref: str, parts: tuple[str, str | None, str | None]
) -> None:
    assert hub.parse_reference(ref) == parts


@pytest.mark.parametrize(
    "ref", ["hf:", "hf:name", "hf:a/b/c", "hf:a/b@", "hf:a b/c", "hf:../x", "hf:a/b@x y"]
)
def test_a_malformed_hub_reference_says_what_was_expected(ref: str) -> None:
    if ref == "hf:../x":  # the client refuses what has the form of a name and is none
        with pytest.raises(ModelNotFoundError):
            hub.download(ref, None, offline=True)
        return
    with pytest.raises(ModelNotFoundError, match="hf:organisation/name"):
        hub.parse_reference(ref)


def hub_error(kind: type[Exception], text: str) -> Exception:
    """An error of the client without the HTTP response that its constructor wants, whose library differs by version."""
    return kind.__new__(kind, text)


class ProxyError(Exception):
    """Stands for an error of whatever HTTP library the client has."""


FAILURES: list[tuple[Exception, type[DopplerError], str]] = [
    (hub_error(errors.GatedRepoError, "gated"), ModelNotFoundError, "accept it, log in"),
    (hub_error(errors.RepositoryNotFoundError, "gone"), ModelNotFoundError, "or it is private"),
    (hub_error(errors.RevisionNotFoundError, "gone"), ModelNotFoundError, "no revision 'v9'"),
    (hub_error(errors.HfHubHTTPError, "busy"), ModelNotFoundError, "could not be fetched"),
    (errors.LocalEntryNotFoundError("not here"), ModelNotFoundError, "run once with the network"),
    (errors.OfflineModeIsEnabled("offline"), ModelNotFoundError, "HF_HUB_OFFLINE"),
    (ProxyError("no proxy"), ModelNotFoundError, "check the network"),
    (OSError(errno.ENOSPC, "full"), DiskSpaceError, "HF_HOME"),
    (ConnectionResetError("reset"), ModelNotFoundError, "could not be fetched"),
]


@pytest.mark.parametrize(("failure", "kind", "remedy"), FAILURES, ids=lambda value: type(value).__name__)
def test_what_the_hub_client_raises_becomes_an_error_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, failure: Exception, kind: type[DopplerError], remedy: str
) -> None:
    def fail(*_: object, **__: object) -> str:
        raise failure

    monkeypatch.setattr(hub, "_list", lambda *_: (None, ""))
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(kind) as raised:
        hub.download("hf:org/name@v9", None, offline=False)
    assert remedy in str(raised.value)
    assert "hf:org/name" in str(raised.value)
    assert raised.value.__cause__ is failure


def test_the_revision_of_the_reference_beats_the_setting(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[object] = []

    def answer(repo: str, *, revision: str | None, local_files_only: bool, **_: object) -> str:
        asked.append((repo, revision, local_files_only))
        return str(tmp_path)

    monkeypatch.setattr(hub, "_list", lambda *_: (None, ""))
    monkeypatch.setattr(huggingface_hub, "snapshot_download", answer)
    assert hub.download("hf:org/name@v2", "v1", offline=True) == tmp_path
    hub.download("hf:org/name", "v1", offline=False)
    hub.download("hf:org/name", None, offline=False)
    assert asked == [("org/name", "v2", True), ("org/name", "v1", False), ("org/name", None, False)]


def test_offline_opens_no_socket(monkeypatch: pytest.MonkeyPatch, settings: EngineSettings) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    with pytest.raises(ModelNotFoundError, match="offline is set"):
        locate("hf:no-such-organisation/no-such-model", settings)


def test_a_gguf_file_is_a_model_by_its_path_and_by_a_folder_that_holds_one(
    tmp_path: Path, settings: EngineSettings
) -> None:
    file = tmp_path / "model.GGUF"
    file.write_bytes(b"GGUF")
    assert locate(str(file), settings) == file
    assert locate(str(tmp_path), settings) == file
    (tmp_path / "blob").write_bytes(b"GGUF")  # without the name: its first bytes tell
    assert locate(str(tmp_path / "blob"), settings) == tmp_path / "blob"
    (tmp_path / "other.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelNotFoundError, match=r"holds 2 GGUF models: .* \(model\.GGUF, other\.gguf\)"):
        locate(str(tmp_path), settings)
    (tmp_path / "config.json").write_text("{}")  # a publisher's folder is what it is, whatever lies beside
    assert locate(str(tmp_path), settings) == tmp_path


def test_a_folder_with_the_parts_of_one_gguf_model_is_its_first_part(
    tmp_path: Path, settings: EngineSettings
) -> None:
    for number in (1, 2, 3):
        (tmp_path / f"m-{number:05}-of-00003.gguf").write_bytes(b"GGUF")
    assert locate(str(tmp_path), settings) == tmp_path / "m-00001-of-00003.gguf"
