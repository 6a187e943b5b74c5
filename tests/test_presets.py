import tomllib

import pytest

from luong.config import load_config
from luong.errors import UserError
from luong.presets import preset_names, preset_text


def test_there_are_presets():
    assert {
        "translate",
        "multi30k",
        "pronunciation",
        "inflection",
        "transliteration",
        "spelling",
        "demo",
    } <= set(preset_names())
    assert preset_names() == sorted(preset_names())


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_is_a_valid_run(name, tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(preset_text(name), encoding="utf-8")
    config = load_config(path)
    assert str(config.output).startswith("runs/")
    # A first line that says what it is for, and characters that any terminal prints.
    assert preset_text(name).startswith("# ")
    assert preset_text(name).isascii()
    assert preset_text(name).endswith("\n")


def test_what_the_first_preset_writes_out_are_the_defaults():
    def differences(table, model, prefix=""):
        for key, value in table.items():
            default = model.model_fields[key].default
            if isinstance(value, dict):
                yield from differences(value, type(default), f"{prefix}{key}.")
            elif default != value:
                yield prefix + key

    from luong.config import RunConfig

    table = tomllib.loads(preset_text("translate"))
    del table["output"], table["data"]
    assert list(differences(table, RunConfig)) == []


def test_an_unknown_preset_is_named_with_the_nearest():
    with pytest.raises(UserError, match=r"no preset 'multi30'\. Did you mean 'multi30k'\? Known:"):
        preset_text("multi30")
    for name in ("", "../config", "demo.toml"):
        with pytest.raises(UserError, match="There is no preset"):
            preset_text(name)
