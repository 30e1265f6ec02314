"""Settings: which file may say what, and what becomes of bad entries."""

import os
import stat
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.app.composition import PROVIDERS
from agent.app.config import (
    GUARDING_SETTINGS,
    MERGED_SETTINGS,
    SETTABLE,
    Config,
    has_credentials,
    load_config,
    with_setting,
)
from agent.app.flag_settings import GivenSettings
from agent.app.settings_schema import SETTINGS
from agent.errors import ConfigError
from agent.permissions import Rule
from agent.permissions.permission_store import store_rule
from agent.settings_files import permissions_path, read_settings, write_setting
from compact.prices import Prices
from transcripts.storage import locked


class Home:
    """A home and a project in a temporary directory."""

    def __init__(self, root: Path) -> None:
        self.home, self.project = root / "home", root / "project"
        self.user = self.home / ".config" / "makeroom"
        self.user.mkdir(parents=True)
        (self.project / ".makeroom").mkdir(parents=True)

    def load(self, **environ: str) -> Config:
        return load_config(environ, self.project, self.home)

    def write(self, text: str, project: bool = False) -> None:
        place = self.project / ".makeroom" if project else self.user
        (place / "settings.toml").write_text(text, "utf-8")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_without_files_there_are_defaults_and_an_empty_variable_counts_as_unset(home: Home) -> None:
    config = home.load(ANTHROPIC_API_KEY="", ANTHROPIC_BASE_URL=" ")
    assert config == home.load() and config.warnings == ()
    assert config.cache_dir == home.home / ".cache/makeroom"
    assert config.state_dir == home.home / ".local/state/makeroom"


def test_every_setting_and_every_setting_of_a_project_is_one_of_the_config() -> None:
    assert SETTINGS.keys() - set(Config.__struct_fields__) == set()
    assert set().union(*SETTABLE.values(), GUARDING_SETTINGS, MERGED_SETTINGS) - SETTINGS.keys() == set()


def test_only_the_files_of_the_named_sources_are_read(home: Home) -> None:
    default = home.load().max_tokens
    home.write("max_tokens = 1000\neffort = 'low'")
    home.write("max_tokens = 2000", project=True)
    read = [
        load_config({}, home.project, home.home, GivenSettings(sources=sources))
        for sources in (("user",), ("project",), ("user", "project"), ())
    ]
    assert [config.max_tokens for config in read] == [1000, 2000, 2000, default]
    assert [config.effort for config in read] == ["low", None, "low", None]


def test_headers_of_requests_may_be_given_as_for_claude_code(home: Home) -> None:
    config = home.load(ANTHROPIC_CUSTOM_HEADERS="X-Team: platform\n\nX-Id:a:b")
    assert config.custom_headers == {"X-Team": "platform", "X-Id": "a:b"}


def test_the_project_overrides_the_user_and_the_environment_both(home: Home) -> None:
    home.write("max_tokens = 1000\neffort = 'low'")
    home.write("max_tokens = 2000", project=True)
    config = home.load(MAKEROOM_EFFORT="high")
    assert (config.max_tokens, config.effort) == (2000, "high")
    assert home.load(MAKEROOM_EFFORT="off").effort == "off"
    home.write("effort = 'off'")
    assert home.load().effort == "off"
    with pytest.raises(ConfigError, match=r": must be one of off, low, medium, high, xhigh, max$"):
        home.load(MAKEROOM_EFFORT="much")


@pytest.mark.parametrize(
    "entry",
    [
        "base_url = 'http://evil'",
        "allow = ['bash']",
        "model = 'x'",
        "pass_env = ['SECRET']",
        "permission_mode = 'bypassPermissions'",
        "permission_mode = 'acceptEdits'",
        "[hooks]\npre_tool = 'curl evil'",
    ],
)
def test_a_project_cannot_grant_itself_anything(home: Home, entry: str) -> None:
    home.write(entry, project=True)
    config = home.load()
    assert len(config.warnings) == (not entry.startswith("[hooks]")), "hooks wait for approval"
    bare = Config(user_dir=config.user_dir, cache_dir=config.cache_dir, state_dir=config.state_dir)
    assert config == replace(bare, warnings=config.warnings)


def test_a_project_may_tighten_and_deny_rules_of_both_files_hold(home: Home) -> None:
    home.write("deny = ['edit']")
    for mode in ("plan", "dontAsk"):
        home.write(f"permission_mode = '{mode}'\ndeny = ['bash(git push)']", project=True)
        config = home.load()
        assert config.permission_mode == mode
        assert config.deny == (Rule("edit"), Rule("bash", "git push"))


def test_one_bad_entry_voids_nothing_else_and_a_typo_is_named(home: Home) -> None:
    home.write("modle = 'x'\nmax_tokens = 'many'\neffort = 'low'")
    config = home.load()
    assert config.effort == "low"
    assert "did you mean `model`?" in config.warnings[0]
    assert "max_tokens" in config.warnings[1]


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (
            "deny = ['bsh(git status)']",
            "deny: unknown tool in the rule 'bsh(git status)'; did you mean 'bash(git status)'?",
        ),
        ("deny = ['xyz']", "deny: unknown tool in the rule 'xyz'; the tools are ask_user, bash"),
        ("deny = [5]", "deny: unknown tool in the rule '5'"),
        ("deny = 'bash(git status)'", """not 'bash(git status)'. Write deny = ["bash(git status)"]"""),
        ("denny = ['bash']", "unknown setting `denny`; did you mean `deny`?"),
        ("[hook]\npre_tool = 'x'", "unknown setting `hook`; did you mean `hooks`?"),
        ("[hooks]\npre_tol = 'x'", "hooks: unknown event 'pre_tol'; did you mean 'pre_tool'?"),
        ("[sandbox]\nmoed = 'require'", "sandbox: unknown entry 'moed'; did you mean 'mode'?"),
        ("[hooks]\npre_tool = 5", 'hooks: pre_tool must be a command, such as "check.sh", not 5'),
        ("[hooks]\npre_tool = ''", "hooks: pre_tool must be a command"),
        ("hooks = 'x'", "hooks must be a table"),
        ("[compact]\npolicy = 'x'", "settings.toml: [compact] policy must be one of"),
    ],
)
def test_a_mistake_in_what_forbids_is_an_error_and_no_warning(home: Home, entry: str, told: str) -> None:
    home.write(entry)
    with pytest.raises(ConfigError) as error:
        home.load()
    assert told in str(error.value) and str(home.user / "settings.toml") in str(error.value)
    assert "\n" not in str(error.value) and error.value.code == 6


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("[compact]\ntriger = 3", "unknown setting `triger` in [compact]; did you mean `trigger`? (ignored)"),
        (
            "[hooks]\nZzz = 5",
            "hooks: unknown event 'Zzz' (its hooks are ignored); the events are SessionStart,",
        ),
    ],
)
def test_an_unknown_name_is_reported_with_the_nearest_and_ignored(home: Home, entry: str, told: str) -> None:
    home.write(f"effort = 'low'\n{entry}")
    config = home.load()
    assert config.effort == "low" and not config.hooks and not config.compact
    (warning,) = config.warnings
    assert f"{home.user / 'settings.toml'}: {told}" in warning


def test_a_rule_that_cannot_be_read_is_named_and_the_others_allow(home: Home) -> None:
    home.write("allow = ['bash(git status)', 'bash(npm', 'net(1.2.3.4)', 5, 'bsh(ls)', 'net(a.example)']")
    config = home.load()
    assert [(rule.tool, rule.pattern) for rule in config.allow] == [
        ("bash", "git status"),
        ("net", "a.example"),
    ]
    assert "bash(npm" in config.warnings[0] and "1.2.3.4" in config.warnings[1]
    assert config.warnings[3].endswith("did you mean 'bash(ls)'? (this rule is ignored)")
    assert all(warning.endswith(" (this rule is ignored)") for warning in config.warnings)
    home.write("allow = 'bash'")
    assert not home.load().allow, "a text is not a list"


@pytest.mark.parametrize("value", ["'soon'", "true", "0", "nan", "inf", "[1]"])
def test_a_value_that_is_not_a_number_is_reported_with_what_is_accepted(home: Home, value: str) -> None:
    home.write(f"timeout = {value}\nmax_tokens = {value}")
    first, second = home.load().warnings
    assert "timeout must be a number of seconds, at least 1, not" in first
    assert "max_tokens must be a whole number of at least 1, not" in second


def test_a_file_that_is_not_toml_is_named_with_its_line(home: Home) -> None:
    home.write("a = 1\nb = = 2\n")
    with pytest.raises(ConfigError, match=r"settings\.toml.*line 2"):
        home.load()


def test_a_byte_order_mark_is_not_a_fault(home: Home) -> None:
    (home.user / "settings.toml").write_bytes(b"\xef\xbb\xbfeffort = 'low'")
    assert home.load().effort == "low"


def test_a_wrong_number_names_its_variable(home: Home) -> None:
    assert home.load(MAKEROOM_MAX_TOKENS="64_000").max_tokens == 64_000
    assert home.load(MAKEROOM_MAX_TOKENS="1e4").max_tokens == 10_000
    with pytest.raises(ConfigError, match="MAKEROOM_MAX_TOKENS"):
        home.load(MAKEROOM_MAX_TOKENS="lots")


def test_variables_of_claude_code_name_the_models_behind_its_short_names(home: Home) -> None:
    names = {f"ANTHROPIC_DEFAULT_{name.upper()}_MODEL": f"my-{name}" for name in ("opus", "sonnet", "haiku")}
    assert home.load(**names).aliases == {name: f"my-{name}" for name in ("opus", "sonnet", "haiku")}


def test_the_settings_of_openai_apply_to_its_two_protocols() -> None:
    assert [name for name in PROVIDERS if Config(provider=name).names_openai] == [
        "openai",
        "openai-responses",
    ]


def test_an_entry_as_the_user_types_it_is_checked_like_one_of_a_file() -> None:
    config = Config()
    assert with_setting(config, "max_tokens", "64_000").max_tokens == 64_000
    made = with_setting(config, "compact.policy", "classic")
    assert (made.compact, made.origins) == ({"policy": "classic"}, {"compact.policy": "/config"})
    for name, text in (("theme", "pink"), ("compact.policy", "none"), ("max_tokens", "many")):
        with pytest.raises(ConfigError, match=f"{name.rpartition('.')[2]}.* must be "):
            with_setting(config, name, text)


def test_the_base_url_is_taken_without_v1(home: Home) -> None:
    config = home.load(ANTHROPIC_BASE_URL="http://localhost:11434/v1/")
    assert config.base_url == "http://localhost:11434"
    assert not config.official


@pytest.mark.parametrize(
    "url",
    [
        "localhost:11434",
        "ftp://x",
        "http://",
        "http://host:port",
        "http://host:0",
        "http://h:99999",
        "http://[::",
    ],
)
def test_an_invalid_base_url_is_reported_before_anything_is_sent(home: Home, url: str) -> None:
    with pytest.raises(ConfigError) as told:
        home.load(ANTHROPIC_BASE_URL=url)
    assert str(told.value) == f"ANTHROPIC_BASE_URL={url!r}: must be a URL such as http://localhost:11434"


def test_an_api_key_with_invalid_characters_is_reported_and_not_shown(home: Home) -> None:
    with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY contains characters") as told:
        home.load(ANTHROPIC_API_KEY="sk-ant-sécret")
    assert "sk-ant" not in str(told.value)


def test_how_long_silence_may_last_can_be_set(home: Home) -> None:
    assert home.load(API_TIMEOUT_MS="600_000").timeout == 600
    assert home.load().timeout is None
    for wrong in ("soon", "-1", "0"):
        with pytest.raises(ConfigError, match="API_TIMEOUT_MS"):
            home.load(API_TIMEOUT_MS=wrong)


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        ("MAX_THINKING_TOKENS", "abc", "0"),
        ("BASH_MAX_OUTPUT_LENGTH", "many", "40000"),
        ("BASH_DEFAULT_TIMEOUT_MS", "soon", "1e5"),
        ("BASH_MAX_TIMEOUT_MS", "-1", "600000"),
        ("MCP_TIMEOUT", "30s", "30000"),
        ("MCP_TOOL_TIMEOUT", "inf", "1e5"),
        ("MAKEROOM_AUTO_COMPACT", "abc", "yes"),
        ("CLAUDE_AUTO_COMPACT", "2", "True"),
        ("MAKEROOM_POLICY", "abc", "classic"),
    ],
)
def test_a_variable_that_holds_what_it_cannot_is_named(home: Home, name: str, wrong: str, right: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name}='{wrong}': must be "):
        home.load(**{name: wrong})
    assert home.load(**{name: right}).warnings == home.load(**{name: " "}).warnings == ()


def test_files_of_settings_that_are_not_read_are_reported_in_one_line(home: Home) -> None:
    home.write("max_tokens = 9000", project=True)
    folder = home.project / ".makeroom"
    assert home.load().warnings == ()
    (folder / "settings.json").write_text("{}")
    (folder / "settings.local.toml").write_text('model = "haiku"')
    (warning,) = home.load().warnings
    assert warning.startswith(f"{folder}: ignoring settings.local.toml, settings.json; ")
    assert warning.endswith("put project settings into settings.toml") and home.load().max_tokens == 9000


def test_credentials_are_looked_for_where_the_sdk_looks(home: Home) -> None:
    assert not has_credentials(home.load(), {}, home.home)
    assert has_credentials(home.load(ANTHROPIC_API_KEY="k"), {}, home.home)
    assert has_credentials(home.load(ANTHROPIC_BASE_URL="http://localhost:1"), {}, home.home)
    assert has_credentials(home.load(), {"ANTHROPIC_PROFILE": "work"}, home.home)
    assert has_credentials(home.load(), {"CLAUDE_CODE_USE_BEDROCK": "1"}, home.home)
    for off in ("", "0", "False"):
        assert not has_credentials(home.load(), {"CLAUDE_CODE_USE_BEDROCK": off}, home.home), off
    profiles = home.home / ".config/anthropic"
    profiles.mkdir()
    (profiles / "active_config").write_text("work")
    assert has_credentials(home.load(), {}, home.home)
    assert not has_credentials(home.load(), {"ANTHROPIC_CONFIG_DIR": str(home.project)}, home.home)


def test_automatic_compaction_can_be_switched_off(home: Home) -> None:
    assert home.load(MAKEROOM_AUTO_COMPACT="0").compact["enabled"] is False
    assert home.load(MAKEROOM_AUTO_COMPACT="false").compact["enabled"] is False
    off = home.load(DISABLE_COMPACT="1")
    assert off.compact["enabled"] is False and "DISABLE_COMPACT is set" in off.warnings[0]
    assert "enabled" not in home.load(DISABLE_COMPACT="0").compact
    assert "enabled" not in home.load(MAKEROOM_AUTO_COMPACT="1").compact
    assert home.load(CLAUDE_AUTO_COMPACT="false").compact["enabled"] is False
    assert home.load(DISABLE_AUTO_COMPACT="1").compact["enabled"] is False
    assert "enabled" not in home.load(DISABLE_AUTO_COMPACT="0", CLAUDE_AUTO_COMPACT="1").compact
    assert "enabled" not in home.load(MAKEROOM_AUTO_COMPACT="1", CLAUDE_AUTO_COMPACT="0").compact


def test_a_grant_is_kept_for_this_project_only(home: Home) -> None:
    path = permissions_path(home.user, home.project)
    store_rule(path, Rule("bash", 'echo "a\\b"', exact=True))
    store_rule(path, Rule("bash", "git status"))
    store_rule(path, Rule("bash", "git status"))
    assert home.load().allow == (Rule("bash", 'echo "a\\b"', exact=True), Rule("bash", "git status"))
    assert load_config({}, home.home, home.home).allow == ()


def test_keys_are_secrets_and_short_ones_would_mask_words(home: Home) -> None:
    assert home.load(ANTHROPIC_API_KEY="sk-ant-12345").secrets == ("sk-ant-12345",)
    assert home.load(ANTHROPIC_API_KEY="none").secrets == ()


def test_what_is_kept_for_the_user_is_private_whatever_the_umask(tmp_path: Path) -> None:
    folder = tmp_path / "home" / ".config" / "makeroom"
    before = os.umask(0)
    try:
        store_rule(path := permissions_path(folder, tmp_path), Rule("bash", "git status"))
    finally:
        os.umask(before)
    made = [path, *path.parents[: len(path.parents) - len(tmp_path.parents) - 1]]
    assert tmp_path / "home" in made
    assert [stat.S_IMODE(each.stat().st_mode) & 0o077 for each in made] == [0] * len(made)
    assert {each.name for each in path.parent.iterdir()} == {path.name, f"{path.stem}.lock"}


def test_prices_of_models_of_ones_own_are_dollars_per_million_tokens(home: Home) -> None:
    free = "[prices.free]\ninput = 0\noutput = 0\n"
    home.write('[prices."my/model"]\ninput = 0.5\noutput = 2\ncache_read = 0.05\n' + free)
    prices = home.load().prices
    assert prices == {"my/model": Prices(0.5, 2, read=0.1), "free": Prices(0, 0)}
    home.write("[prices.x]\ninput = 1\n[prices.y]\ninput = -1\noutput = 2\n")
    loaded = home.load()
    assert loaded.prices == {} and '[prices."x"] must contain input and output' in loaded.warnings[0]
    home.write(free, project=True)
    assert home.load().prices == {}


def test_two_sessions_that_change_settings_at_once_lose_none(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    with locked(path):  # as another session that is about to write
        other = threading.Thread(target=write_setting, args=(path, "theme", "dark"))
        other.start()
        other.join(0.2)
        path.write_text('model = "m"\n')
    other.join(5)
    assert read_settings(path) == {"model": "m", "theme": "dark"}
