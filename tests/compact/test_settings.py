"""Settings have names that say what they limit, and values of the type of their default."""

import tomllib

import pytest

from compact.settings import POLICY_NAMES, CompactSettings
from tests.tables import each_row


def test_an_empty_table_gives_the_defaults():
    assert CompactSettings.from_table({}) == CompactSettings()
    assert CompactSettings().policy == POLICY_NAMES[0] == "thrifty"


@each_row("name", CompactSettings.__struct_fields__)
def test_every_setting_can_be_set_under_its_name(name):
    values = {str: "classic", bool: False, int: 7, float: 0.5, tuple: ("grep",), type(None): 9}
    value = values[type(getattr(CompactSettings(), name))]
    assert getattr(CompactSettings.from_table({name: value}), name) == value


def test_names_in_use_are_not_warned_of():
    assert CompactSettings.known({"trigger": 1}) == ({"trigger": 1}, ())


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("snip_hed_messages", "; did you mean `snip_head_messages`?"),
        ("zzz", ""),
    ],
)
def test_an_unknown_name_is_reported_with_the_nearest_and_ignored(name, hint):
    table = {name: "what you like", "trigger": 7}
    assert CompactSettings.known(table) == (
        {"trigger": 7},
        (f"unknown setting `{name}` in [compact]{hint} (ignored)",),
    )
    assert CompactSettings.from_table(table) == CompactSettings(trigger=7)


@each_row(
    ("toml", "told"),
    [
        ("policy = 'frugal'", "[compact] policy must be one of thrifty, classic, off, not 'frugal'"),
        ("enabled = 1", "[compact] enabled must be true or false, not 1"),
        ("trigger = 1.5", "[compact] trigger must be an integer of 0 or more, not 1.5"),
        ("trigger = true", "[compact] trigger must be an integer of 0 or more, not True"),
        ("trigger = -1", "[compact] trigger must be an integer of 0 or more, not -1"),
        ("trigger_max_share = 'a'", "[compact] trigger_max_share must be a number of 0 or more"),
        ("trigger_max_share = -0.1", "[compact] trigger_max_share must be a number of 0 or more"),
        ("budget_exempt = 'read'", "[compact] budget_exempt must be a list of tool names, not 'read'"),
        ("budget_exempt = [1]", "[compact] budget_exempt must be a list of tool names, not [1]"),
        ("max_record_tokens = 'x'", "[compact] max_record_tokens must be an integer"),
    ],
)
def test_a_wrong_value_is_reported_with_the_key_and_what_it_takes(toml, told):
    with pytest.raises(ValueError) as error:
        CompactSettings.from_table(tomllib.loads(toml))
    assert told in str(error.value)


def test_whole_numbers_are_taken_for_shares():
    made = CompactSettings.from_table({"trigger_max_share": 1})
    assert made.trigger_max_share == 1.0 and isinstance(made.trigger_max_share, float)


def test_only_policy_off_and_disabled_keep_compactions_from_happening_unasked():
    automatic = {policy: CompactSettings(policy=policy).automatic for policy in POLICY_NAMES}
    assert automatic == {"thrifty": True, "classic": True, "off": False}
    assert not CompactSettings(enabled=False).automatic
