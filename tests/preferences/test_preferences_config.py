"""The settings that decide what clicks mean: where they come from, and what is refused."""

from pathlib import Path

import msgspec
import pytest

from streamrank.config import Settings, load_settings, variables
from streamrank.errors import ConfigError

TOML = """
store = "memory://x"
commit_every = 7

[join]
window_ms = 5000
settle_ms = 10

[judge]
rule = "ips"
theta = [1.0, 0.5]
clip = 4
grades = {click = 1.0, like = 2.5}

[features]
mode = "hashed"
text = ["title"]

[[models]]
name = "a"
params = {rate = 0.05}
"""
YAML = """
store: memory://x
commit_every: 7
join: {window_ms: 5000, settle_ms: 10}
judge:
  rule: ips
  theta: [1.0, 0.5]
  clip: 4
  grades: {click: 1.0, like: 2.5}
features:
  mode: hashed
  text: [title]
models:
  - name: a
    params: {rate: 0.05}
"""
# another value than the default for every setting there is
OTHER = {
    "STREAMRANK_STORE": "memory://other",
    "STREAMRANK_COMMIT_EVERY": "17",
    "STREAMRANK_COMMIT_MS": "18",
    "STREAMRANK_MAX_STATE_MB": "24",
    "STREAMRANK_REDIS_PREFIX": "team",
    "STREAMRANK_REDIS_PASSWORD": "secret",
    "STREAMRANK_REDIS_CA_FILE": "ca.pem",
    "STREAMRANK_REDIS_TIMEOUT_MS": "25",
    "STREAMRANK_REDIS_RETRY_MS": "26",
    "STREAMRANK_EVENTS_MAX_BYTES": "1000",
    "STREAMRANK_EVENTS_MAX_ITEMS": "11",
    "STREAMRANK_JOIN_WINDOW_MS": "12",
    "STREAMRANK_JOIN_LATENESS_MS": "13",
    "STREAMRANK_JOIN_SETTLE_MS": "14",
    "STREAMRANK_JOIN_MAX_OPEN": "15",
    "STREAMRANK_JOIN_DEDUP_MS": "16",
    "STREAMRANK_JOIN_MAX_IDS": "19",
    "STREAMRANK_JUDGE_RULE": "skip-above",
    "STREAMRANK_JUDGE_GRADES": '{"click": 2}',
    "STREAMRANK_JUDGE_CLIP": "7.5",
    "STREAMRANK_JUDGE_THETA": "[1, 0.25]",
    "STREAMRANK_JUDGE_MIN_SHUFFLED": "20",
    "STREAMRANK_FEATURES_MODE": "hashed",
    "STREAMRANK_FEATURES_COLUMNS": "21",
    "STREAMRANK_FEATURES_BITS": "10",
    "STREAMRANK_FEATURES_TEXT": '["body"]',
    "STREAMRANK_FEATURES_CLICK_RATE_HALF_LIFE_MS": "5000",
    "STREAMRANK_FEATURES_MAX_ITEMS": "22",
    "STREAMRANK_KAFKA_SERVERS": "broker:9092",
    "STREAMRANK_KAFKA_TOPIC": "events",
    "STREAMRANK_KAFKA_GROUP": "team",
    "STREAMRANK_KAFKA_START": "latest",
    "STREAMRANK_KAFKA_ON_GAP": "skip",
    "STREAMRANK_KAFKA_ON_LOST": "stop",
    "STREAMRANK_KAFKA_DEAD_LETTER_TOPIC": "dead",
    "STREAMRANK_KAFKA_DEAD_LETTER_ALARM": "0.5",
    "STREAMRANK_KAFKA_GIVE_UP_MS": "27",
    "STREAMRANK_KAFKA_OPTIONS": '{"client_id": "x"}',
    "STREAMRANK_RECONCILE_MARGIN": "0.25",
    "STREAMRANK_RECONCILE_KEEP": "28",
    "STREAMRANK_SERVE_HOST": "::1",
    "STREAMRANK_SERVE_PORT": "8001",
    "STREAMRANK_SERVE_TOKEN": "0123456789abcdef",
    "STREAMRANK_SERVE_LOG": "log",
    "STREAMRANK_SERVE_KEEP_MB": "29",
    "STREAMRANK_SERVE_MAX_BYTES": "3000",
    "STREAMRANK_SERVE_MAX_PER_SECOND": "31",
    "STREAMRANK_SERVE_TIMEOUT_MS": "32",
    "STREAMRANK_SERVE_MAX_LAG_MS": "33",
    "STREAMRANK_SNAPSHOTS_EVERY_EVENTS": "34",
    "STREAMRANK_SNAPSHOTS_EVERY_SECONDS": "35",
    "STREAMRANK_SNAPSHOTS_FOLDER": "kept",
    "STREAMRANK_SNAPSHOTS_KEEP": "36",
    "STREAMRANK_RECOMMENDERS": '[{"name": "r", "learner": "bpr"}]',
    "STREAMRANK_ARCHIVE_FOLDER": "archive",
    "STREAMRANK_ARCHIVE_KEEP_DAYS": "37",
    "STREAMRANK_ARCHIVE_KEEP_MB": "38",
    "STREAMRANK_KAFKA_CLIENT": "confluent",
    "STREAMRANK_RECONCILE_EVERY_EVENTS": "39",
    "STREAMRANK_RECONCILE_EVERY_SECONDS": "40",
    "STREAMRANK_RECONCILE_FOLDER": "reconcile",
    "STREAMRANK_RECONCILE_MEMORY_MB": "640",
    "STREAMRANK_RECONCILE_ROLLBACK": "0.25",
    "STREAMRANK_POOL_EVERY_SECONDS": "41",
    "STREAMRANK_SERVE_CHALLENGER": "default",
    "STREAMRANK_SERVE_EXPLORE": "false",
    "STREAMRANK_SERVE_FEEDBACK": "kafka",
    "STREAMRANK_MODELS": '[{"name": "b", "learner": "ranknet"}]',
}


@pytest.fixture
def write(tmp_path: Path):
    def write(text: str, name: str = "config.toml") -> Path:
        path = tmp_path / name
        path.write_text(text, "utf-8")
        return path

    return write


def test_toml_and_yaml_give_the_same_settings(write):
    toml = load_settings(write(TOML), {})
    assert (
        toml == load_settings(write(YAML, "config.yaml"), {}) == load_settings(write(YAML, "config.yml"), {})
    )
    assert (toml.judge.rule, toml.judge.clip, toml.judge.grades) == ("ips", 4.0, {"click": 1.0, "like": 2.5})
    assert toml != Settings()


def test_without_file_and_environment_all_is_default():
    assert load_settings(None, {}) == Settings()


def test_the_environment_names_the_file_and_wins_over_it(write):
    environ = {"STREAMRANK_CONFIG": str(write(TOML)), "STREAMRANK_JOIN_WINDOW_MS": "9", "OTHER": "x"}
    settings = load_settings(None, environ)
    assert (settings.join.window_ms, settings.join.settle_ms, settings.store) == (9, 10, "memory://x")


def test_the_list_of_other_values_leaves_no_variable_out():
    assert set(variables()) == set(OTHER)


# what a setting is refused without
ARCHIVE = {"STREAMRANK_ARCHIVE_FOLDER": "archive"}
NEEDS = {"STREAMRANK_RECONCILE_EVERY_EVENTS": ARCHIVE, "STREAMRANK_RECONCILE_EVERY_SECONDS": ARCHIVE}


@pytest.mark.parametrize("variable", OTHER)
def test_every_variable_changes_its_setting_and_no_other(variable):
    beside = NEEDS.get(variable, {})
    changed = msgspec.to_builtins(load_settings(None, {variable: OTHER[variable], **beside}))
    expected = msgspec.to_builtins(load_settings(None, beside))
    *sections, last = variables()[variable]
    inner, original = changed, expected
    for section in sections:
        inner, original = inner[section], original[section]
    assert inner[last] != original[last]
    original[last] = inner[last]
    assert changed == expected


def refused(text: str, write, **environ: str) -> str:
    with pytest.raises(ConfigError) as error:
        load_settings(write(text), environ)
    return str(error.value)


def test_an_unclipped_theta_from_the_config_is_refused(write):
    unclipped = {"STREAMRANK_JUDGE_CLIP": "0"}
    assert "judge.clip is off" in refused("[judge]\ntheta = [1.0, 0.5]", write, **unclipped)
    assert load_settings(None, unclipped).judge.clip == 0  # where it is measured, or in the event


@pytest.mark.parametrize("theta", ["[]", "[1.0, 0.0]", "[1.0, -0.5]", "[1.5]", "[nan]", "[inf]"])
def test_a_theta_that_is_no_probability_is_refused(write, theta):
    assert "judge.theta must be" in refused(f"[judge]\ntheta = {theta}", write)


@pytest.mark.parametrize("clip", ["0.99", "-3"])
def test_a_clip_below_one_is_refused(write, clip):
    assert "from 1 up" in refused(f"[judge]\nclip = {clip}", write)


@pytest.mark.parametrize("value", ["inf", "nan"])
def test_a_clip_or_grade_that_is_not_finite_is_refused(write, value):
    assert "judge.clip" in refused(f"[judge]\nclip = {value}", write)
    assert "judge.grades" in refused(f"[judge.grades]\nclick = {value}", write)


def test_an_empty_yaml_file_or_section_is_the_defaults(tmp_path):
    path = tmp_path / "s.yaml"
    for text in ("", "join:\n"):
        path.write_text(text)
        assert load_settings(path, {"STREAMRANK_JOIN_WINDOW_MS": "7"}).join.window_ms == 7


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[judge]\nrule = "skip-below"', "skip-below"),
        ("[judge]\nclipp = 3", "clipp"),
        ("[joins]\nwindow_ms = 3", "joins"),
        ('[join]\nwindow_ms = "long"', "window_ms"),
        ("[join]\nwindow_ms = 0", "join.window_ms is 0"),
        ("[join]\nmax_open = 0", "join.max_open is 0"),
        ("[join]\nsettle_ms = -1", "join.settle_ms is -1"),
        ("[judge]\nmin_shuffled = 0", "judge.min_shuffled is 0"),
        ("[judge.grades]\nclick = -1.0", "judge.grades"),
        ("[judge.grades]\nclick = nan", "judge.grades"),
        ("models = []", "models need names"),
        ('[[models]]\nname = "a"\n[[models]]\nname = "a"', "models need names"),
        ('[[models]]\nname = "a/b"', "no '/'"),
        ("window_ms = ", "not valid toml"),
    ],
)
def test_what_makes_no_sense_is_refused_and_named(write, text, said):
    assert said in refused(text, write)


def test_an_unknown_variable_is_refused_by_its_name(write):
    assert "STREAMRANK_JUDGE_RULES" in refused("", write, STREAMRANK_JUDGE_RULES="ips")


def test_a_file_that_is_missing_or_no_table_is_refused(write, tmp_path):
    with pytest.raises(ConfigError, match="cannot read the config"):
        load_settings(tmp_path / "none.toml", {})
    with pytest.raises(ConfigError, match="must hold a table"):
        load_settings(write("- a\n- b", "list.yaml"), {})
