"""The plugin that the page about plugins shows is one: it loads, without a warning, and each of its hooks is called."""

import re
import tomllib
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner
from plugin_fakes import write_distribution

from doppler_core.engine import model_type
from doppler_plugins.cli.extensions import commands_of_plugins
from doppler_plugins.registry import Registry, build_registry

PAGE = (Path(__file__).parents[1] / "docs" / "plugins.md").read_text("utf-8")


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """What is found with the page's module installed as `team_plugin`."""
    (module,) = re.findall(r"^```python\n(.*?@hookimpl.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    module = module.rpartition("```python\n")[2]
    (_, declared) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    write_distribution(
        tmp_path, "team", tomllib.loads(declared)["project"]["entry-points"], {"team_plugin": module}
    )
    monkeypatch.syspath_prepend(tmp_path)
    return build_registry([str(tmp_path)])


def test_the_module_of_the_page_loads_and_its_hooks_do_what_they_say(
    registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    (record,) = [record for record in registry.records if record.name == "team"]
    assert (record.status, record.warnings) == ("loaded", ())
    assert len(record.hooks) == 3
    (resolve,) = registry.manager.implementations("doppler_resolve_model")
    assert resolve(ref="store:small", settings=None) == Path("/shared/models/small")
    assert resolve(ref="other:small", settings=None) is None
    hello = commands_of_plugins(registry.manager, ())["hello"]
    assert isinstance(hello, click.Command)
    assert CliRunner().invoke(hello).output == "hello\n"
    (see,) = registry.manager.implementations("doppler_engine_opened")
    see(engine=SimpleNamespace(model_id="a model", device="numpy", memory_bytes=1))
    assert capsys.readouterr() == ("", "a model on numpy: 1 bytes\n")


@pytest.mark.parametrize("protocol", [model_type.ModelType, model_type.Driver, model_type.Job])
def test_every_member_of_what_a_model_type_is_made_of_is_on_the_page(protocol: type) -> None:
    members = {name for name in (*vars(protocol), *protocol.__annotations__) if not name.startswith("_")}
    assert len(members) > 3
    assert members <= set(re.findall(r"`(\w+)(?:\([^`]*\))?`", PAGE))
