from __future__ import annotations

import os
import re
import subprocess
import sys
import traceback
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import dagster as dg
import pytest
from pydantic import ValidationError

from deltasnap_assets.settings.config import AlertSettings, Settings, SparkSettings
from deltasnap_assets.settings.loading import (
    NoConfigError,
    demo_settings,
    load_settings,
    load_spark_settings,
    read_settings,
)
from deltasnap_assets.settings.table_settings import ASSET_NAMES, DiscoverSettings, Since, TableSettings
from deltasnap_assets.settings.yaml_source import ConfigError
from deltasnap_core import redaction

PASSWORD = "hunter2"


@pytest.fixture(autouse=True)
def _no_secrets_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process hides all secrets that it has seen, and other tests use common words."""
    monkeypatch.setattr(redaction, "_learned", {})


def write(folder: Path, text: str) -> Path:
    path = folder / "deltasnap.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_full_file_is_read(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
storage: ./store
spark:
  master: local[2]
  config: {spark.driver.memory: 2g, spark.ui.enabled: true}
tables:
  - name: events
    path: s3://lake/events
    storage_options: {key: "${KEY}", client_kwargs: {endpoint_url: "http://${HOST}:9000"}}
    versions: {since: 100}
    poll_seconds: 15
    refresh: "*/5 0-12 * * mon-fri"
    materialize_as: table
  - name: clicks
    path: data/clicks
    versions: latest
    refresh: null
""",
    )
    settings = read_settings(path, {"KEY": "abc", "HOST": "localhost"})
    events, clicks = settings.tables
    assert settings.storage == str(tmp_path / "store")
    assert settings.spark.config == {"spark.driver.memory": "2g", "spark.ui.enabled": True}
    assert events.storage_options == {"key": "abc", "client_kwargs": {"endpoint_url": "http://localhost:9000"}}
    assert (events.path, events.versions, events.poll_seconds) == ("s3://lake/events", Since(since=100), 15)
    assert (clicks.path, clicks.versions, clicks.refresh) == (str(tmp_path / "data/clicks"), "latest", None)
    assert settings.table("clicks") is clicks
    with pytest.raises(ValueError, match=r"No table named x. Configured: events, clicks"):
        settings.table("x")


def test_keys_of_a_table_follow_its_settings() -> None:
    plain = TableSettings(name="a", path="/a")
    assert plain.keys == tuple(f"a/{each}" for each in ("delta_log", *ASSET_NAMES))
    assert plain.group_name == "a"
    own = TableSettings(name="a", path="/a", asset_key="silver/my-a.b", key_prefix="ops/deltasnap", group="silver")
    assert own.keys == ("silver/my-a.b", *(f"ops/deltasnap/a/{each}" for each in ASSET_NAMES))
    assert own.group_name == "silver"


MISTAKES = {
    "unknown key": (
        "tables:\n  - name: a\n    path: /a\n    pol_seconds: 3\n",
        ":4: tables[0].pol_seconds: unknown key, did you mean poll_seconds? (found: '3')",
    ),
    "unknown key, nothing near": (
        "tables: [{name: a, path: /a}]\nspark:\n  zzz: 1\n",
        ":3: spark.zzz: unknown key, expected one of use, master, remote, resource, config (found: '1')",
    ),
    "unknown key of a checkpoint": (
        "tables:\n  - name: a\n    path: /a\n    checkpoint: {after_commit: 5}\n",
        ":4: tables[0].checkpoint.after_commit: unknown key, did you mean after_commits? (found: '5')",
    ),
    "unknown key of alerts": (
        "tables: [{name: a, path: /a}]\nalerts:\n  url: 1\n",
        ":3: alerts.url: unknown key, did you mean urls?",
    ),
    "unknown key of checks": (
        "tables:\n  - name: a\n    path: /a\n    checks: {small_file_byte: 5}\n",
        ":4: tables[0].checks.small_file_byte: unknown key, did you mean small_file_bytes? (found: '5')",
    ),
    "unknown key of a pattern": (
        "discover:\n  - path: /a/*\n    exlude: [b]\n",
        ":3: discover[0].exlude: unknown key, did you mean exclude?",
    ),
    "unknown key of the checkpoint of a pattern": (
        "discover:\n  - path: /a/*\n    checkpoint: {after_commit: 5}\n",
        ":3: discover[0].checkpoint.after_commit: unknown key, did you mean after_commits? (found: '5')",
    ),
    "unknown key of the checks of a pattern": (
        "discover:\n  - path: /a/*\n    checks: {small_file_byte: 5}\n",
        ":3: discover[0].checks.small_file_byte: unknown key, did you mean small_file_bytes? (found: '5')",
    ),
    "unknown key at the top": (
        "tabels: []\ntables: [{name: a, path: /a}]\n",
        ":1: tabels: unknown key, did you mean tables?",
    ),
    "empty path": ("tables:\n  - name: a\n    path: ''\n", ":3: tables[0].path: must not be empty (found: '')"),
    **{
        f"name of discovered tables: {name}": (
            f'discover:\n  - path: /a/*\n    name: "{name}"\n',
            f":3: discover[0].name: {problem} (found: '{name}')",
        )
        for name, problem in (
            *(
                (name, "only {name} and {parent} are resolved")
                for name in ("{nam}", "{name.a}", "{name[a]}", "{name}{")
            ),
            *((name, "Dagster allows only letters, digits and underscores") for name in ("a-{name}", "")),
        )
    },
    "empty pattern": ("discover:\n  - path: ''\n", ":2: discover[0].path: must not be empty (found: '')"),
    "text instead of a list": (
        "tables:\n  - name: a\n    path: /a\n    owners: ada\n",
        ":4: tables[0].owners: expected a list (found: 'ada')",
    ),
    "alerts on nothing": ("tables: [{name: a, path: /a}]\nalerts:\n  on: []\n", ":3: alerts.on: must not be empty"),
    "alerts on an unknown condition": (
        "tables: [{name: a, path: /a}]\nalerts:\n  on: [bad]\n",
        ":3: alerts.on[0]: expected 'error' or 'warn'",
    ),
    "text instead of a list of alerts": (
        "tables: [{name: a, path: /a}]\nalerts:\n  on: error\n",
        ":3: alerts.on: expected a list",
    ),
    "number instead of a mapping": (
        "tables:\n  - name: a\n    path: /a\n    checkpoint: 5\n",
        ":4: tables[0].checkpoint: expected a mapping (found: '5')",
    ),
    "text instead of a mapping": (
        "tables:\n  - name: a\n    path: /a\n    tags: x\n",
        ":4: tables[0].tags: expected a mapping (found: 'x')",
    ),
    "empty store": ('storage: ""\ntables: [{name: a, path: /a}]\n', ":1: storage: must not be empty (found: '')"),
    "missing name": ("storage: s\ntables:\n  - path: /a\n", ":3: tables[0].name: missing"),
    "missing tables": ("storage: s\n", ":1: tables: missing"),
    "home of nobody": (
        "tables:\n  - name: a\n    path: ~nosuchuser/x\n",
        ":3: tables[0].path: there is no user nosuchuser on this machine (found: '~nosuchuser/x')",
    ),
    "home of nobody for the store": (
        "storage: ~nosuchuser/x\ntables: [{name: a, path: /a}]\n",
        ":1: storage: there is no user nosuchuser on this machine (found: '~nosuchuser/x')",
    ),
    "endless hours": (
        "tables:\n  - name: a\n    path: /a\n    checks: {fresh_within_hours: .inf}\n",
        ":4: tables[0].checks.fresh_within_hours: expected less than or equal to 1000000 (found: '.inf')",
    ),
    "too many hours": (
        "tables:\n  - name: a\n    path: /a\n    checks: {fresh_within_hours: 1.0e+12}\n",
        ":4: tables[0].checks.fresh_within_hours: expected less than or equal to 1000000 (found: '1.0e+12')",
    ),
    "fleet among the assets of a table": (
        "fleet_asset: a/all_files\ntables: [{name: a, path: /a}]\n",
        ":2: tables: a/all_files is among the assets of table a: choose another fleet_asset",
    ),
    "two tables with one asset key": (
        "tables:\n  - {name: a, path: /a, asset_key: lake/x}\n  - {name: b, path: /b, asset_key: lake/x}\n",
        ":1: tables: the tables a and b both have the asset key lake/x: choose another asset_key",
    ),
    "an asset key that is one of another table": (
        "tables:\n  - {name: a, path: /a}\n  - {name: b, path: /b, asset_key: a/all_files}\n",
        ":1: tables: the tables a and b both have the asset key a/all_files: choose another asset_key",
    ),
    "an asset key that names the same step as another": (
        "tables:\n  - {name: a, path: /a, asset_key: lake/x-y}\n  - {name: b, path: /b, asset_key: lake__x_y}\n",
        ":1: tables: the tables a and b both have the asset key lake__x_y: choose another asset_key",
    ),
    "an asset key that is another of the table": (
        "tables: [{name: a, path: /a, asset_key: d/a/all_files, key_prefix: d}]\n",
        ":1: tables: the asset_key of table a is also the key of another of its assets: choose another asset_key",
    ),
    "the asset key of the fleet": (
        "tables: [{name: a, path: /a, asset_key: fleet}]\n",
        ":1: tables: fleet is among the assets of table a: choose another fleet_asset",
    ),
    **{
        f"invalid {key}": (
            f"tables:\n  - name: a\n    path: /a\n    {key}: {value}\n",
            f":4: tables[0].{key}: expected an asset key: letters, digits, _, - and ., its parts separated by /{found}",
        )
        for key, value, found in (
            ("asset_key", "a//b", " (found: 'a//b')"),
            ("key_prefix", "a b", " (found: 'a b')"),
            ("deps", "[raw/clicks, /x]", ""),
        )
    },
    "invalid group": (
        "tables:\n  - name: a\n    path: /a\n    group: my-group\n",
        ":4: tables[0].group: Dagster allows only letters, digits and underscores (found: 'my-group')",
    ),
    "trigger of an attached table": (
        "tables:\n  - {name: a, path: /a, asset_key: lake/a, attach: true, trigger_on: data}\n",
        ":2: tables[0]: trigger_on has no effect with attach: Dagster counts the materializations of your asset, not "
        "its data versions",
    ),
    "no table": ("tables: []\n", ":1: tables: expected at least one table"),
    "two tables of one name": (
        "tables:\n  - {name: a, path: /a}\n  - name: A\n    path: /b\n",
        ":3: tables[1].name: also the name of another table, tables[0].name (found: 'A')",
    ),
    "a name Dagster refuses": (
        "tables:\n  - name: my-table\n    path: /a\n",
        ":2: tables[0].name: Dagster allows only letters, digits and underscores (found: 'my-table')",
    ),
    "a name that is not text": (
        "tables:\n  - name: 2024\n    path: /a\n",
        ":2: tables[0].name: expected a valid string (found: '2024')",
    ),
    "bad cron": (
        'tables:\n  - name: a\n    path: /a\n    refresh: "61 * * * *"\n',
        ":4: tables[0].refresh: not a cron expression for Dagster: expected five fields, as in 0 * * * * "
        "(found: '61 * * * *')",
    ),
    "half a character": (
        'tables:\n  - name: a\n    path: "/a\\ud800"\n',
        ":3: tables[0].path: expected a valid string (found: '/a\\ud800')",
    ),
    "credentials in a URL": (
        "tables:\n  - name: a\n    path: /a\n    versions: s3://me:hunter2@lake\n",
        ":4: tables[0].versions: expected all, latest or {since: VERSION} (found: 's3://*********(redacted)@lake')",
    ),
    "bad versions": (
        "tables:\n  - name: a\n    path: /a\n    versions: newest\n",
        ":4: tables[0].versions: expected all, latest or {since: VERSION} (found: 'newest')",
    ),
    "negative since": (
        "tables:\n  - name: a\n    path: /a\n    versions: {since: -1}\n",
        ":4: tables[0].versions.since: expected greater than or equal to 0 (found: '-1')",
    ),
    "bad materialize_as": (
        "tables:\n  - name: a\n    path: /a\n    materialize_as: files\n",
        ":4: tables[0].materialize_as: expected 'view' or 'table' (found: 'files')",
    ),
    "master and remote": (
        "spark:\n  master: local\n  remote: sc://h\ntables: [{name: a, path: /a}]\n",
        ":1: spark: set master or remote, not both",
    ),
    "remote and resource": (
        "spark:\n  resource: my_spark\n  remote: sc://h\ntables: [{name: a, path: /a}]\n",
        ":1: spark: set remote or resource, not both",
    ),
    "properties of a resource": (
        "spark:\n  resource: my_spark\n  config: {spark.x: 1}\ntables: [{name: a, path: /a}]\n",
        ":1: spark: config does not apply to the session of a resource: set the properties there",
    ),
    "remote without scheme": (
        "spark: {remote: host}\ntables: [{name: a, path: /a}]\n",
        ":1: spark.remote: expected a Spark Connect address, sc://HOST:PORT (found: 'host')",
    ),
    "variable not set": (
        "tables:\n  - name: a\n    path: ${LAKE}/a\n",
        ":3: tables[0].path: the environment variable LAKE is not set (found: '${LAKE}/a')",
    ),
    "key given twice": (
        "tables:\n  - name: a\n    path: /a\n    path: /b\n",
        ":4: tables[0].path: duplicate key, first on line 3",
    ),
    "not YAML": (
        "tables: [\n",
        ":2: not YAML: expected the node content, but found '<stream end>' (check the indentation, quotes and brackets "
        "up to here)",
    ),
    "two documents": (
        "tables: []\n---\ntables: []\n",
        ":2: a second document starts here: put all keys into one, without `---` between them",
    ),
    "control character": (
        "tables: \x01\n",
        ": not YAML: unacceptable character #x0001: special characters are not allowed",
    ),
    "key that is a list": ("tables: []\n[a]: 1\n", ":2: a key must be text"),
    "nested key that is a list": ("tables:\n  - {name: a, [b]: 1}\n", ":2: tables[0]: a key must be text"),
    "merged key": ("storage: &x {}\n<<: *x\n", ":2: the merge key << is not supported: repeat the keys"),
    "not a mapping": ("- a\n", ": expected keys such as tables: ..."),
    "empty": ("", ": expected keys such as tables: ..."),
    "unknown tag": (
        "tables:\n  - name: a\n    path: !env LAKE\n",
        ":3: tables[0].path: the tag !env is not supported: for an environment variable, write ${NAME}",
    ),
    "include": (
        "tables: !include hunter2.yaml\n",
        ":1: tables: the tag !include is not supported: for an environment variable, write ${NAME}",
    ),
    "impossible date": (
        "tables:\n  - name: a\n    path: /a\n    description: 2026-13-45\n",
        ":4: tables[0].description: not a valid timestamp: if it is text, put it in quotes",
    ),
    "number that is none": (
        "tables:\n  - name: a\n    path: /a\n    storage_options: {key: !!int hunter2}\n",
        ":4: tables[0].storage_options.key: not a valid int: if it is text, put it in quotes",
    ),
    "credentials are not shown": (
        "tables:\n  - name: a\n    path: /a\nspark:\n  config: {spark.secret: [hunter2]}\n",
        ":5: spark.config.spark.secret: expected text, a number, true or false",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistake_names_file_line_key_and_value(case: str, tmp_path: Path) -> None:
    text, expected = MISTAKES[case]
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as raised:
        read_settings(path, {})
    first_line = str(raised.value).splitlines()[0]
    assert first_line == f"{path}{expected}"
    assert len(raised.value.problems) == 1
    assert "hunter2" not in str(raised.value)


NUMBERS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "poll_seconds": ((1, 86_400), (0, 86_401)),
    "max_versions_per_run": ((1,), (0,)),
    "versions.since": ((0,), (-1, 1.5)),
    "checkpoint.after_commits": ((1,), (0,)),
    "checks.small_file_bytes": ((1,), (0,)),
    "checks.max_small_file_ratio": ((0, 1), (-0.1, 1.1)),
    "checks.min_statistics_ratio": ((0, 1), (-0.1, 1.1)),
    "checks.max_commits_since_checkpoint": ((1,), (0,)),
    "checks.max_tombstone_ratio": ((0, 1), (-0.1, 1.1)),
    "checks.max_partition_skew": ((1,), (0.9,)),
    "checks.max_expired_ratio": ((0, 2), (-0.1,)),
    "checks.fresh_within_hours": ((0.1, 1_000_000), (0, 1_000_000.1)),
    "checks.max_growth_factor": ((1,), (0.9,)),
}


@pytest.mark.parametrize("key", NUMBERS)
def test_number_is_accepted_within_its_limits(key: str) -> None:
    outer, _, inner = key.partition(".")
    for is_accepted, values in zip((True, False), NUMBERS[key], strict=True):
        for value in values:
            raised: AbstractContextManager[object] = nullcontext() if is_accepted else pytest.raises(ValidationError)
            with raised:
                TableSettings.model_validate({"name": "a", "path": "/a", outer: {inner: value} if inner else value})


@pytest.mark.parametrize("key", NUMBERS)
def test_boolean_is_not_a_number(key: str) -> None:
    outer, _, inner = key.partition(".")
    for value in (True, False):
        with pytest.raises(ValidationError, match=r"valid (integer|number)"):
            TableSettings.model_validate({"name": "a", "path": "/a", outer: {inner: value} if inner else value})


OWNERS = (
    ("ada@example.com", "_a.b+c%d@x-y.z.museums", "team:web", "team:a_b.c-d"),
    ("ada", "ada@example", "a b@example.com", "ada@lake.engineering", "a@b.c", "ä@b.de", "team:", "team:a b"),
)
TAGS = (("a", "a" * 63, "x.y/a-b_c.d"), ("", "a" * 64, "a/b/c", "x y", "/a"))


def test_owners_and_tags_are_those_that_dagster_accepts() -> None:
    table = {"name": "a", "path": "/a"}
    for owner in OWNERS[0]:
        assert TableSettings.model_validate({**table, "owners": [owner]}).owners == (owner,)
        assert dg.AssetSpec("a", owners=[owner])
    for key in TAGS[0]:
        assert TableSettings.model_validate({**table, "tags": {key: "v" * 63}}).tags == {key: "v" * 63}
    for owner in OWNERS[1]:
        with pytest.raises(ValidationError, match="Dagster accepts e-mail addresses"):
            TableSettings.model_validate({**table, "owners": ["team:web", owner]})
    for key, value in (*((key, "") for key in TAGS[1]), ("a", "v" * 64), ("a", "b c"), ("a", "ü")):
        with pytest.raises(ValidationError, match="Dagster tags have up to 63 letters"):
            TableSettings.model_validate({**table, "tags": {key: value}})


def test_options_and_properties_are_not_in_the_text_of_settings() -> None:
    options = {"client_kwargs": "unseen"}
    table = TableSettings(name="a", path="/a", storage_options=options)
    pattern = DiscoverSettings(path="/a/*", storage_options=options)
    spark = SparkSettings(config={"spark.app.name": "unseen"})
    settings = Settings(storage="/s", storage_options=options, tables=(table,), discover=(pattern,), spark=spark)
    assert "unseen" not in f"{settings} {settings!r}"
    assert "path='/a/*'" in repr(settings)


def test_secret_properties_of_a_session_are_redacted_everywhere() -> None:
    SparkSettings(config={"spark.hadoop.fs.s3a.secret.key": PASSWORD, "spark.app.name": "shown"})
    assert redaction.redacted(f"{PASSWORD} shown") == "*********(redacted) shown"


def test_settings_cannot_be_changed() -> None:
    settings = demo_settings(Path("/demo"))
    for model, key in (
        (settings, "storage"),
        (settings.tables[0], "name"),
        (settings.tables[0].checks, "max_growth_factor"),
    ):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(model, key, "x")


def test_spark_property_that_is_a_list_is_reported_once(tmp_path: Path) -> None:
    path = write(tmp_path, "tables: [{name: a, path: /a}]\nspark: {config: {spark.jars: [a.jar, b.jar]}}\n")
    with pytest.raises(ConfigError) as raised:
        read_settings(path, {})
    assert [problem.key for problem in raised.value.problems] == ["spark.config.spark.jars"]


@pytest.mark.parametrize("kind", [str, Path])
def test_file_is_given_as_a_text_or_a_path(kind: type[str | Path], tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("tables: [{name: events, path: lake}]", encoding="utf-8")
    (table,) = load_settings(kind(tmp_path / "own.yaml")).tables
    assert table.path == str(tmp_path / "lake")


def test_all_mistakes_are_reported_together(tmp_path: Path) -> None:
    path = write(tmp_path, "tables:\n  - name: a-b\n    poll_seconds: soon\n")
    with pytest.raises(ConfigError) as raised:
        read_settings(path, {})
    assert [problem.key for problem in raised.value.problems] == [
        "tables[0].path",
        "tables[0].name",
        "tables[0].poll_seconds",
    ]


@pytest.mark.parametrize(
    "text",
    [
        'tables: [{name: t, path: /t}]\nalerts: {urls: ["${SECRET}"]}',
        'tables: [{name: t, path: /t, storage_options: "${SECRET}"}]',
        "tables: [{name: t, path: /t}]\nalerts: {urls: hunter2, ",
    ],
    ids=["webhook", "storage options", "not YAML"],
)
def test_traceback_of_a_mistake_shows_no_secret(text: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as raised:
        read_settings(path, {"SECRET": PASSWORD})
    assert PASSWORD not in "".join(traceback.format_exception(raised.value))


def test_error_of_settings_created_in_python_shows_no_secret() -> None:
    with pytest.raises(ValidationError) as raised:
        AlertSettings.model_validate({"urls": ["hunter2"]})
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("named", [{}, {"DELTASNAP_CONFIG": ""}], ids=["not set", "empty"])
def test_folder_without_a_configuration_is_an_error_also_beside_a_demo(named: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / ".deltasnap" / "demo").mkdir(parents=True)
    with pytest.raises(
        NoConfigError, match=r"There is no `deltasnap.yaml` in .* or above it, and `DELTASNAP_CONFIG` is not set\."
    ):
        load_settings(environment=named, folder=tmp_path)


def test_code_location_in_a_folder_without_a_configuration_does_not_load(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "DELTASNAP_CONFIG"}
    loaded = subprocess.run(
        [sys.executable, "-c", "from deltasnap_assets.definitions import defs"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"NoConfigError: There is no `deltasnap.yaml` in {tmp_path} or above it, and" in loaded.stderr
    assert list(tmp_path.iterdir()) == []


def test_settings_come_from_variable_then_working_folder_then_the_nearest_folder_above(tmp_path: Path) -> None:
    write(tmp_path, "tables: [{name: here, path: /a}]")
    deep = tmp_path / "src" / "deep"
    deep.mkdir(parents=True)
    assert load_settings(environment={}, folder=deep).tables[0].name == "here"
    write(deep.parent, "tables: [{name: nearer, path: a}]")
    nearer = load_settings(environment={}, folder=deep)
    assert (nearer.tables[0].name, nearer.tables[0].path) == ("nearer", str(deep.parent / "a"))
    other = tmp_path / "other.yaml"
    other.write_text("tables: [{name: named, path: /a}]", encoding="utf-8")
    assert load_settings(environment={}, folder=tmp_path).tables[0].name == "here"
    assert load_settings(environment={"DELTASNAP_CONFIG": "other.yaml"}, folder=tmp_path).tables[0].name == "named"
    with pytest.raises(ConfigError, match=r"absent.yaml: cannot be read: No such file or directory"):
        load_settings(environment={"DELTASNAP_CONFIG": "absent.yaml"}, folder=tmp_path)


def test_session_of_a_command_reads_only_the_key_spark(tmp_path: Path) -> None:
    assert load_spark_settings({}, tmp_path) == SparkSettings()
    tables = 'tables: [{name: a, path: /a, storage_options: {key: "${UNSET}"}}]\ndiscover: [{path: /nowhere/*}]\n'
    write(tmp_path, f"{tables}spark: {{remote: 'sc://cluster:15002'}}\nunknown: 1\n")
    assert load_spark_settings({}, tmp_path).remote == "sc://cluster:15002"
    with pytest.raises(ConfigError, match="UNSET"):
        load_settings(environment={}, folder=tmp_path)


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("spark: {remote: nowhere}", "deltasnap.yaml:1: spark.remote: expected a Spark Connect address"),
        ('spark: {config: {a: "${UNSET}"}}', "deltasnap.yaml:1: spark.config.a: the environment variable UNSET"),
        ("spark: [", "deltasnap.yaml:1: not YAML"),
        ("[1]", "deltasnap.yaml: expected keys"),
    ],
)
def test_mistake_in_the_key_spark_is_reported(tmp_path: Path, text: str, reported: str) -> None:
    write(tmp_path, text)
    with pytest.raises(ConfigError, match=re.escape(reported)):
        load_spark_settings({}, tmp_path)


def test_file_in_an_unknown_home_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"~nosuchuser/x.yaml: cannot be read, the value of DELTASNAP_CONFIG"):
        load_settings(environment={"DELTASNAP_CONFIG": "~nosuchuser/x.yaml"}, folder=tmp_path)


def test_demo_settings_follow_the_demo_table(tmp_path: Path) -> None:
    settings = demo_settings(tmp_path)
    assert settings.storage == str(tmp_path / ".deltasnap/store")
    assert [(table.name, table.path) for table in settings.tables] == [
        ("events", str(tmp_path / ".deltasnap/demo/events"))
    ]


@pytest.mark.parametrize(
    "text",
    [
        "0 * * * *",
        "*/5 1-3,7 * jan-mar mon,fri",
        "0 0 1 1 7",
        "@daily",
        "0 0 * * sat-sun",
        "0 0 L * *",
        "0 0 * * 5#2",
        "H * * * *",
        "H */6 * * *",
    ],
)
def test_cron_is_accepted(text: str, tmp_path: Path) -> None:
    path = write(tmp_path, f'tables: [{{name: a, path: /a, refresh: "{text}"}}]')
    assert read_settings(path, {}).tables[0].refresh == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "* * * *",
        "60 * * * *",
        "* 24 * * *",
        "*/0 * * * *",
        "* * * 13 *",
        "0 0 31 2 *",
        "* * * * * *",
        "H * * *",
        "0 H * * *",
        "H/5 * * * *",
    ],
)
def test_invalid_cron_is_rejected(text: str, tmp_path: Path) -> None:
    path = write(tmp_path, f'tables: [{{name: a, path: /a, refresh: "{text}"}}]')
    with pytest.raises(ConfigError, match=r"tables\[0\]\.refresh"):
        read_settings(path, {})


def test_minute_h_of_a_schedule_depends_on_the_name_alone() -> None:
    tables = [TableSettings(name=f"t{number}", path="/t", refresh="H 5 * * *") for number in range(60)]
    crons = [table.refresh_cron or "" for table in tables]
    assert crons == [table.model_copy(update={"path": "/u"}).refresh_cron for table in tables]
    assert {cron.split(maxsplit=1)[1] for cron in crons} == {"5 * * *"}
    assert len(set(crons)) > 30
    assert all(0 <= int(cron.split()[0]) < 60 for cron in crons)


def test_table_has_the_location_of_its_configuration(tmp_path: Path) -> None:
    path = write(tmp_path, "storage: s\ntables:\n  - name: a\n    path: /a\n  - {name: b, path: b}\n")
    assert [table.defined_at for table in read_settings(path, {}).tables] == [(str(path), 3), (str(path), 5)]
    assert demo_settings(tmp_path).tables[0].defined_at is None


def test_storage_option_in_an_environment_variable_may_be_a_boolean(tmp_path: Path) -> None:
    options = '{anon: "${ANON}", key: "1", client_kwargs: {verify: "true"}}'
    table = f"{{name: t, path: s3://b/t, storage_options: {options}}}"
    (tmp_path / "x.yaml").write_text(f"storage_options: {options}\ntables: [{table}]", encoding="utf-8")
    settings = read_settings(tmp_path / "x.yaml", {"ANON": "False"})
    expected = {"anon": False, "key": "1", "client_kwargs": {"verify": True}}
    assert (settings.storage_options, settings.tables[0].storage_options) == (expected, expected)


def test_environment_variable_is_text_unless_a_tag_converts_it(tmp_path: Path) -> None:
    file = tmp_path / "deltasnap.yaml"
    options = '{key: "${NUMBER}", port: !!int "${NUMBER}", share: !!float "0.${NUMBER}"}'
    file.write_text(f"tables: [{{name: a, path: /a, storage_options: {options}}}]", encoding="utf-8")
    found = read_settings(file, {"NUMBER": "50"}).tables[0].storage_options
    assert found == {"key": "50", "port": 50, "share": 0.5}
    with pytest.raises(ConfigError, match=r"storage_options.port: not a valid int") as raised:
        read_settings(file, {"NUMBER": "hunter2"})
    assert "hunter2" not in str(raised.value)
    with pytest.raises(ConfigError) as raised:
        read_settings(file, {})
    assert {problem.reason for problem in raised.value.problems} == {"the environment variable NUMBER is not set"}


def test_first_version_may_be_an_environment_variable(tmp_path: Path) -> None:
    file = tmp_path / "deltasnap.yaml"
    file.write_text('tables: [{name: a, path: /a, versions: {since: "${FIRST}"}}]', encoding="utf-8")
    assert read_settings(file, {"FIRST": "7"}).tables[0].versions == Since(since=7)
    with pytest.raises(ConfigError, match="since: expected a valid integer"):
        read_settings(file, {"FIRST": "seven"})


CATALOG_MISTAKES = {
    "no catalogs": ("tables: [{name: a, table: main.b.a}]", "main.b.a is in the catalog main, which `catalogs`"),
    "another key": (
        "catalogs: {lake: {type: glue}}\ntables: [{name: a, table: main.b.a}]",
        "main.b.a is in the catalog main, which `catalogs` does not have: it has lake",
    ),
    "pattern of another key": (
        "catalogs: {lake: {type: glue}}\ndiscover: [{table: main.b.*}]",
        "main.b.* is in the catalog main",
    ),
    "one part": ("catalogs: {lake: {type: glue}}\ntables: [{name: a, table: lake}]", "tables[0].table: expected the"),
    "pattern": (
        "catalogs: {lake: {type: glue}}\ntables: [{name: a, table: lake.b.*}]",
        "tables[0].table: expected the",
    ),
    "path too": ("tables: [{name: a, path: /a, table: lake.b.a}]", "set path, or table and catalog, not both"),
    "unknown type": (
        "catalogs: {main: {type: nessie}}\ntables: []",
        ":1: catalogs.main: expected a catalog with the type",
    ),
    "no type": ("catalogs: {main: {host: x}}\ntables: []", ":1: catalogs.main: expected a catalog with the type"),
    "no mapping": ("catalogs: {main: unity}\ntables: []", ":1: catalogs.main: expected a catalog with the type"),
    "no host": ("catalogs: {main: {type: unity}}\ntables: []", "catalogs.main.host: missing"),
    "wrong host": (
        "catalogs: {main: {type: unity, host: ftp://x}}\ntables: []",
        "catalogs.main.host: Expected the host",
    ),
    "unknown key": ("catalogs: {lake: {type: glue, regoin: x}}\ntables: []", "catalogs.lake.regoin: unknown key, did"),
    "only a catalog": ("tables: [{name: a, path: /a, catalog: lake}]", "set path, or table and catalog, not both"),
}


@pytest.mark.parametrize("case", CATALOG_MISTAKES)
def test_mistake_about_a_catalog_is_one_sentence(case: str, tmp_path: Path) -> None:
    text, reason = CATALOG_MISTAKES[case]
    with pytest.raises(ConfigError) as raised:
        read_settings(write(tmp_path, text), {})
    assert reason in str(raised.value)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("catalogs: {lake: {type: glue}}\ntables: [{name: a, table: lake.b.a}]", "b.a"),
        ("catalogs: {lake: {type: glue}}\ntables: [{name: a, table: b.a, catalog: lake}]", "b.a"),
        ("catalogs: {main: {type: unity, host: x}}\ntables: [{name: a, table: main.b.a}]", "main.b.a"),
        ("catalogs: {u: {type: unity, host: x}}\ntables: [{name: a, table: main.b.a, catalog: u}]", "main.b.a"),
    ],
)
def test_first_part_of_a_name_is_the_catalog_unless_another_is_named(text: str, name: str, tmp_path: Path) -> None:
    (table,) = read_settings(write(tmp_path, text), {}).tables
    assert (table.name_in_catalog, table.path) == (name, "")


def test_options_of_a_catalog_are_hidden(tmp_path: Path) -> None:
    glue = "{type: glue, options: {aws_secret_access_key: hidden-key}}"
    settings = read_settings(write(tmp_path, f"catalogs: {{lake: {glue}}}\ntables: [{{name: a, table: lake.b.a}}]"), {})
    assert "hidden-key" not in repr(settings)
    assert redaction.redacted("hidden-key") != "hidden-key"
    unity = "{type: unity, host: x, token: hidden-token}"
    assert "hidden-token" not in repr(
        read_settings(write(tmp_path, f"catalogs: {{u: {unity}}}\ndiscover: [{{path: /a}}]"))
    )
    assert redaction.redacted("hidden-token") != "hidden-token"
    with pytest.raises(ConfigError) as raised:
        read_settings(write(tmp_path, "catalogs: {lake: {type: glue, options: hidden-key}}\ntables: []"), {})
    assert "hidden-key" not in str(raised.value)
