"""A manifest names the very text of each kernel it was made for; `pin` writes digests and nothing else."""

import copy
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doppler_core.errors import DigestError, ManifestError
from doppler_core.manifest import load_manifest
from doppler_core.manifest.digest import digest, kernel_digest, kernels_named, recognise, verify_digests
from doppler_core.manifest.kernel_text import kernel_text
from doppler_core.manifest.pin import pin
from doppler_core.settings import data_dir

SEEDS = Path(__file__).parent / "data/seeds"
EMBEDDING = SEEDS / "google-embeddinggemma-300m-q4k-ehf16-af32.json"
SHIPPED = sorted(path for path in data_dir("manifests").rglob("*.json") if "execution" in path.read_text())
RUN = ("preLayer", "prefill", "postLayer")


def without_digests(data: dict[str, Any]) -> dict[str, Any]:
    data = copy.deepcopy(data)
    for spec in data["execution"]["kernels"].values():
        del spec["digest"]
    return data


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.wgsl").write_bytes(text.encode())
    return folder


def test_the_digest_is_the_published_formula() -> None:
    text = "fn main() {}\r\n// \u00e9\r\n"
    expected = hashlib.sha256("fn main() {}\n// \u00e9\n\n@@entry:main".encode()).hexdigest()
    assert digest(text, "main") == f"sha256:{expected}"
    assert digest(text, "other") != digest(text, "main")


def test_parts_are_included_once_and_line_ends_do_not_matter(tmp_path: Path) -> None:
    write(
        tmp_path, a="//!include b.wgsl\n//!include c.wgsl\nfn main() {}\n", b="//!include c.wgsl\nfn b() {}\n"
    )
    write(tmp_path, c="fn c() {}\n")
    assert kernel_text("a.wgsl", tmp_path) == "fn c() {}\nfn b() {}\n\nfn main() {}\n"
    before = kernel_digest("a.wgsl", "main", tmp_path)
    write(tmp_path, c="fn c() {}\r\n")
    assert kernel_digest("a.wgsl", "main", tmp_path) == before
    write(tmp_path, c="fn c() { }\n")
    assert kernel_digest("a.wgsl", "main", tmp_path) != before


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("//!include a.wgsl\n", "include each other: a.wgsl -> a.wgsl"),
        ("//!include b.wgsl\n", "include each other: a.wgsl -> b.wgsl -> a.wgsl"),
        ("//!include ../a.wgsl\n", "without a path"),
        ("//!include /etc/passwd\n", "without a path"),
        ("//!include\n//!include \n", "without a path"),
        ("//!include n.wgsl\n", "no such file"),
        ("fn mainly() {}\n", "expected an entry point 'main'"),
    ],
)
def test_a_text_that_is_not_a_kernel_is_an_error_that_names_it(
    tmp_path: Path, text: str, expected: str
) -> None:
    write(tmp_path, a=text, b="//!include a.wgsl\n")
    with pytest.raises(DigestError, match=r"a\.wgsl|passwd|''") as caught:
        kernel_digest("a.wgsl", "main", tmp_path)
    assert expected in str(caught.value)


def test_the_shipped_seeds_equal_the_originals_in_all_but_the_digests() -> None:
    originals = sorted(SEEDS.glob("*.json"))
    assert len(originals) == 3
    for original in originals:
        shipped = data_dir("manifests") / original.name
        assert without_digests(json.loads(shipped.read_text())) == without_digests(
            json.loads(original.read_text())
        )


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_digest_is_that_of_the_text_here_or_of_a_kernel_that_is_not_here(path: Path) -> None:
    for key, spec in load_manifest(path).execution.kernels.items():
        kind = recognise(spec)
        missing = not (data_dir("wgsl") / spec.kernel).exists()
        assert kind == ("javascript" if missing else "current"), f"{key}: run `doppler-plugins pin {path}`"


def test_an_embedding_manifest_runs_only_kernels_of_ours() -> None:
    manifest = load_manifest(data_dir("manifests") / EMBEDDING.name)
    used = kernels_named(manifest.execution, RUN)
    assert used == set(manifest.execution.kernels)
    assert verify_digests(manifest, used) == ()


def test_javascript_digests_are_refused_with_advice_where_the_kernel_would_run() -> None:
    with pytest.raises(
        DigestError, match=r"JavaScript engine's kernel; ours is sha256:.*doppler-plugins pin"
    ):
        verify_digests(load_manifest(EMBEDDING), {"rope"})
    notes = verify_digests(load_manifest(EMBEDDING), ())
    assert len(notes) == 7
    assert all("not run by this model type" in note for note in notes)


def test_a_kernel_this_version_does_not_have_is_refused_where_it_would_run() -> None:
    path = data_dir("manifests") / "diffusiongemma-26b-a4b-it-q4k-ehf16-af16.json"
    data = json.loads(path.read_text())
    data["execution"]["kernels"]["sample"]["kernel"] = "sample_of_tomorrow.wgsl"
    with pytest.raises(DigestError, match=r"sample_of_tomorrow\.wgsl#sample_single_pass.*does not have"):
        verify_digests(load_manifest(data), ())


def test_a_wrong_digest_is_refused_whether_the_kernel_runs_or_not() -> None:
    data = json.loads((data_dir("manifests") / EMBEDDING.name).read_text())
    right = data["execution"]["kernels"]["gelu"]["digest"]
    data["execution"]["kernels"]["gelu"]["digest"] = wrong = "sha256:" + "ab" * 32
    for used in ({"gelu"}, set[str]()):
        with pytest.raises(DigestError) as caught:
            verify_digests(load_manifest(data), used)
        for part in ("execution.kernels.gelu (gelu.wgsl#main)", right, wrong, "doppler-plugins pin FILE"):
            assert part in str(caught.value)


def test_an_older_digest_with_an_unchanged_contract_opens_with_a_note(tmp_path: Path) -> None:
    older = "sha256:" + "cd" * 32
    for file in data_dir("wgsl").glob("*.wgsl"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    known = {"older": {"rope.wgsl#main": [older]}, "javascript": {}}
    (tmp_path / "digests.json").write_text(json.dumps(known))
    data = json.loads((data_dir("manifests") / EMBEDDING.name).read_text())
    data["execution"]["kernels"]["rope"]["digest"] = older
    (note,) = verify_digests(load_manifest(data), {"rope"}, tmp_path)
    assert "execution.kernels.rope" in note
    assert "older" in note
    with pytest.raises(DigestError):
        verify_digests(load_manifest(data), {"rope"})


def test_every_digest_of_the_seeds_is_known_as_the_javascript_engines() -> None:
    for path in SEEDS.glob("*.json"):
        for spec in load_manifest(path).execution.kernels.values():
            assert recognise(spec) == "javascript"


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    indent=st.sampled_from([None, 0, 1, 3, "\t"]),
    separators=st.sampled_from([(",", ":"), (" , ", " : ")]),
    newline=st.sampled_from(["\n", "\r\n"]),
    order=st.randoms(use_true_random=False),
)
def test_pin_changes_nothing_but_the_digests_whatever_the_layout(
    tmp_path: Path, indent: Any, separators: tuple[str, str], newline: str, order: Any
) -> None:
    data = json.loads(EMBEDDING.read_text())
    # Names that look like the path, strings with quotes and braces, keys in any order.
    data["text"] = {"prompts": {"execution": '{"digest": "', "\u00e9": "\U0001f600", 'ker"nels': "}\\"}}
    shuffled = list(data.items())
    order.shuffle(shuffled)
    text = json.dumps(dict(shuffled), indent=indent, separators=separators, ensure_ascii=False)
    text = text.replace("\n", newline) + newline
    path = tmp_path / "m.json"
    path.write_bytes(text.encode())
    done = pin(path)
    assert len(done.written) == 7
    expected = text
    for spec in data["execution"]["kernels"].values():
        expected = expected.replace(spec["digest"], kernel_digest(spec["kernel"], spec["entry"]))
    assert path.read_bytes() == expected.encode()
    os.utime(path, (1, 1))
    again = pin(path)
    assert (again.written, len(again.right), path.stat().st_mtime) == ((), 7, 1)


@pytest.mark.parametrize("placeholder", ["", None, "sha256:todo"])
def test_pin_fills_any_placeholder_in(tmp_path: Path, placeholder: Any) -> None:
    data = json.loads(EMBEDDING.read_text())
    for spec in data["execution"]["kernels"].values():
        spec["digest"] = placeholder
    path = tmp_path / "m.json"
    path.write_text(json.dumps(data))
    pin(path)
    assert load_manifest(path) == load_manifest(data_dir("manifests") / EMBEDDING.name)


def test_pin_leaves_kernels_it_has_no_text_for_and_refuses_what_is_no_manifest(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    data = json.loads(EMBEDDING.read_text())
    data["execution"]["kernels"]["extra"] = spec = {
        "kernel": "nowhere.wgsl",
        "entry": "main",
        "digest": "kept",
    }
    path.write_text(json.dumps(data))
    assert pin(path).without_text == ("extra",)
    assert json.loads(path.read_text())["execution"]["kernels"]["extra"] == spec
    for text in ("{}", "[]", '{"execution": {"kernels": 3}}', "nonsense"):
        path.write_text(text)
        with pytest.raises(ManifestError):
            pin(path)
        assert path.read_text() == text
    assert [file.name for file in tmp_path.iterdir()] == ["m.json"]
