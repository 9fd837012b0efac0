"""One broken plugin is listed with its reason and hurts nobody."""

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from plugin_fakes import model_type_source, write_distribution

from doppler_core.errors import PluginError
from doppler_plugins.records import PluginRecord, Policy
from doppler_plugins.registry import Registry, build_registry

GOOD = """
    import doppler_plugins

    @doppler_plugins.hookimpl
    def doppler_register_model_types(register):
        register("{name}", "{module}:Model", aliases=("{name}-alias",), architectures=("{name}Arch",))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the import path whose modules are forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("ALLOW", "BLOCK", "STRICT"):
        monkeypatch.delenv(f"DOPPLER_PLUGINS_{name}", raising=False)
    yield tmp_path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


def hook_plugin(folder: Path, distribution: str, text: str, name: str | None = None) -> None:
    module = distribution.replace("-", "_") + "_module"
    write_distribution(
        folder,
        distribution,
        {"doppler_plugins": {name or distribution: module}},
        {module: textwrap.dedent(text)},
    )


def good_plugin(folder: Path, distribution: str, name: str) -> None:
    module = distribution.replace("-", "_") + "_module"
    hook_plugin(
        folder, distribution, textwrap.dedent(GOOD.format(name=name, module=module)) + model_type_source(name)
    )


def record_of(registry: Registry, name: str) -> PluginRecord:
    (found,) = [record for record in registry.records if record.name == name]
    return found


BROKEN = {
    "import-error": ("import no_such_module_anywhere", "failed", "no_such_module_anywhere"),
    "syntax-error": ("def broken(:", "failed", "SyntaxError"),
    "exits": ("raise SystemExit(3)", "failed", "SystemExit: 3"),
    "api-99": ("DOPPLER_PLUGINS_API = 99", "incompatible", "99"),
    "api-text": ("DOPPLER_PLUGINS_API = '1'", "incompatible", "'1'"),
    "api-true": ("DOPPLER_PLUGINS_API = True", "incompatible", "True"),
    "raises": (
        """
        import doppler_plugins
        @doppler_plugins.hookimpl
        def doppler_register_model_types(register):
            register("half_way", "os:PathLike")
            raise KeyError("no more")
        """,
        "failed",
        "KeyError: 'no more'",
    ),
    "bad-signature": (
        """
        import doppler_plugins
        @doppler_plugins.hookimpl
        def doppler_register_model_types(register, colour):
            register("half_way", "os:PathLike")
        """,
        "failed",
        "colour",
    ),
    "coroutine": (
        """
        import doppler_plugins
        @doppler_plugins.hookimpl
        async def doppler_register_model_types(register):
            register("half_way", "os:PathLike")
        """,
        "failed",
        "coroutine",
    ),
    "wrapper": (
        """
        import doppler_plugins
        @doppler_plugins.hookimpl(wrapper=True)
        def doppler_register_model_types(register):
            return (yield)
        """,
        "failed",
        "wrappers",
    ),
    "no-class": (
        """
        import doppler_plugins
        @doppler_plugins.hookimpl
        def doppler_register_model_types(register):
            register("half_way", 7)
        """,
        "failed",
        "expected a class",
    ),
    "twice": (
        """
        import doppler_plugins
        @doppler_plugins.hookimpl
        def doppler_register_model_types(register):
            register("half-way", "os:PathLike")
            register("half_way", "os:PathLike")
        """,
        "failed",
        "twice",
    ),
    "second-hook-raises": (
        """
        import doppler_plugins
        @doppler_plugins.hookimpl
        def doppler_register_model_types(register):
            register("half_way", "os:PathLike")
        @doppler_plugins.hookimpl
        def doppler_register_adapters(register):
            raise RuntimeError("later")
        """,
        "failed",
        "later",
    ),
}


@pytest.mark.parametrize("kind", sorted(BROKEN))
def test_a_broken_plugin_is_listed_with_its_reason_and_its_neighbours_work(folder: Path, kind: str) -> None:
    text, status, reason = BROKEN[kind]
    good_plugin(folder, "a-first", "first")
    hook_plugin(folder, "m-" + kind, text)
    good_plugin(folder, "z-last", "last")
    registry = build_registry()
    record = record_of(registry, "m_" + kind.replace("-", "_"))
    assert record.status == status
    assert reason in record.reason
    assert record.provides == ()
    assert registry.model_type("first").name == "first"
    assert registry.model_type("last").name == "last"
    assert not any(item.name == "half_way" for item in registry.registrations)


def test_all_broken_plugins_together_leave_the_good_ones_and_the_built_ins(folder: Path) -> None:
    good_plugin(folder, "good", "good")
    for kind, (text, _, _) in BROKEN.items():
        hook_plugin(folder, kind, text)
    registry = build_registry()
    assert registry.model_type("good").name == "good"
    assert registry.find("model type", "embedding").builtin
    assert sum(record.is_problem for record in registry.records) == len(BROKEN)


def test_an_unknown_hook_is_a_warning_with_the_nearest_name_and_the_rest_counts(folder: Path) -> None:
    good_plugin(folder, "newer", "newer")
    with (folder / "newer_module.py").open("a") as module:
        module.write(
            "\n@doppler_plugins.hookimpl\ndef doppler_register_model_type(register): ...\n"
            "\n@doppler_plugins.hookimpl\ndef doppler_from_the_future(anything): ...\n"
        )
    registry = build_registry()
    record = record_of(registry, "newer")
    assert record.status == "loaded"
    assert any("did you mean doppler_register_model_types?" in warning for warning in record.warnings)
    assert any("doppler_from_the_future in this version" in warning for warning in record.warnings)
    assert registry.model_type("newer").name == "newer"


def test_a_module_without_hooks_is_told_how_to_mark_them(folder: Path) -> None:
    hook_plugin(folder, "plain", "def doppler_register_model_types(register): ...")
    assert "hookimpl" in record_of(build_registry(), "plain").warnings[0]


def test_the_second_plugin_of_a_name_is_a_duplicate_and_is_not_imported(folder: Path) -> None:
    hook_plugin(folder, "alpha", "import doppler_plugins", name="same")
    hook_plugin(folder, "beta", "raise AssertionError('imported')", name="Same")
    first, second = [record for record in build_registry().records if record.name == "same"]
    assert (first.distribution, first.status) == ("alpha", "loaded")
    assert (second.distribution, second.status) == ("beta", "duplicate")
    assert "alpha 1.0" in second.reason


def test_a_broken_plugin_does_not_keep_its_name_from_a_good_one(folder: Path) -> None:
    hook_plugin(folder, "alpha", "import no_such_module_anywhere", name="same")
    hook_plugin(folder, "beta", "import doppler_plugins", name="same")
    status = {record.distribution: record.status for record in build_registry().records}
    assert (status["alpha"], status["beta"]) == ("failed", "loaded")


def test_hooks_run_in_the_order_of_names_with_tryfirst_and_trylast_respected(folder: Path) -> None:
    for name, options in (("b", ""), ("a", ""), ("c", "(tryfirst=True)"), ("0", "(trylast=True)")):
        text = f"""
            import doppler_plugins
            @doppler_plugins.hookimpl{options}
            def doppler_register_model_types(register):
                register("type_{name}", "os:PathLike")
        """
        hook_plugin(folder, f"order-{name}", text)
    found = [item.name for item in build_registry().registrations if not item.builtin]
    assert found == ["type_c", "type_a", "type_b", "type_0"]


@pytest.mark.parametrize("value", ["not a module", "module:", ":Class", "pkg.module", ""])
def test_an_entry_point_that_names_no_class_is_listed_as_failed(folder: Path, value: str) -> None:
    write_distribution(folder, "odd", {"doppler_plugins.model_types": {"odd": value}})
    record = record_of(build_registry(), "odd")
    assert record.status == "failed"
    assert "expected module:Class" in record.reason


def test_metadata_that_can_not_be_read_hurts_nobody(folder: Path) -> None:
    good_plugin(folder, "good", "good")
    (folder / "nameless-1.dist-info").mkdir()
    (folder / "garbled-1.dist-info").mkdir()
    (folder / "garbled-1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: garbled\nVersion: 1\n"
    )
    (folder / "garbled-1.dist-info" / "entry_points.txt").write_bytes(b"[doppler_plugins]\n\xff\xfe = x\n")
    registry = build_registry()
    assert registry.model_type("good").name == "good"
    assert record_of(registry, "garbled").status == "failed"


def test_the_same_distribution_twice_on_the_path_counts_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good_plugin(folder, "good", "good")
    again = folder / "again"
    write_distribution(again, "good", {"doppler_plugins": {"good": "good_module"}}, version="0.9")
    monkeypatch.syspath_prepend(again)
    monkeypatch.syspath_prepend(folder)
    assert record_of(build_registry(), "good").version == "1.0"


@pytest.mark.parametrize(
    ("allow", "block", "loaded"),
    [
        (None, "", {"one", "two"}),
        ("one", "", {"one"}),
        (" ONE , dist-two ", "", {"one", "two"}),
        ("", "", set()),
        (None, "one", {"two"}),
        (None, "Dist_Two", {"one"}),
        ("one,two", "two", {"one"}),
    ],
)
def test_the_variables_say_which_plugins_load(
    folder: Path, allow: str | None, block: str, loaded: set[str]
) -> None:
    for name in ("one", "two"):
        module = f"{name}_module"
        write_distribution(
            folder,
            f"dist-{name}",
            {"doppler_plugins": {name: module}},
            {module: f"import doppler_plugins\nIMPORTED = {name!r}\n"},
        )
    environment = {"DOPPLER_PLUGINS_BLOCK": block}
    if allow is not None:
        environment["DOPPLER_PLUGINS_ALLOW"] = allow
    registry = build_registry(policy=Policy.from_environment(environment))
    status = {record.name: record.status for record in registry.records if not record.builtin}
    assert {name for name, value in status.items() if value == "loaded"} == loaded
    assert {name for name, value in status.items() if value == "blocked"} == {"one", "two"} - loaded
    assert {name for name in ("one", "two") if f"{name}_module" in sys.modules} == loaded
    assert registry.find("model type", "embedding").builtin


def test_an_allowed_plugin_that_is_not_installed_is_reported(folder: Path) -> None:
    registry = build_registry(policy=Policy(allow=frozenset({"absent"})))
    assert record_of(registry, "absent").status == "missing"


def test_strict_raises_with_every_reason(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hook_plugin(folder, "one", "import no_such_module_anywhere")
    hook_plugin(folder, "two", "DOPPLER_PLUGINS_API = 2")
    monkeypatch.setenv("DOPPLER_PLUGINS_STRICT", "1")
    with pytest.raises(PluginError) as raised:
        build_registry()
    assert "no_such_module_anywhere" in str(raised.value)
    assert "DOPPLER_PLUGINS_API = 2" in str(raised.value)
