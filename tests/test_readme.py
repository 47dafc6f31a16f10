"""What the README says of the settings is so."""

import json
import re
from pathlib import Path

import msgspec

from streamrank.config import Settings, load_settings, variables
from streamrank.errors import MalformedEvent
from streamrank.events.codec import Decoder

README = (Path(__file__).parents[1] / "README.md").read_text("utf-8")


def test_the_table_of_settings_names_every_setting_with_its_default():
    rows = dict(re.findall(r"^\| `([a-z_.]+)` \| (.+?) \|", README.partition("## Settings")[2], re.MULTILINE))
    defaults = msgspec.to_builtins(Settings())
    expected = {".".join(path) for path in variables().values()}
    assert set(rows) == expected
    for path in variables().values():
        name = ".".join(path)
        if name == "models":
            continue
        value = defaults
        for part in path:
            value = value[part]
        assert json.loads(rows[name].strip("`")) == value, name


def test_the_example_config_is_valid(tmp_path):
    text = re.search(r"```toml\n(.*?)```", README, re.DOTALL)[1]
    (tmp_path / "s.toml").write_text(text)
    assert [model.name for model in load_settings(tmp_path / "s.toml", {}).models] == [
        "champion",
        "challenger",
    ]


def test_the_example_events_are_well_formed():
    text = re.search(r"```json\n(.*?)```", README, re.DOTALL)[1]
    records = re.sub(r"\n (?=\")", " ", text).strip().splitlines()
    assert len(records) == 5
    for record in records:
        assert not isinstance(Decoder().decode(record.encode())[0], MalformedEvent), record
