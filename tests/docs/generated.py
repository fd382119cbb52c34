"""The generated parts of the documentation: tables of keys, assets, checks, jobs and commands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import dagster as dg
import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from deltasnap_assets.checks.check_settings import CheckOptions, CheckSettings
from deltasnap_assets.checks.registry import CHECKS
from deltasnap_assets.command.cli import app
from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.settings.catalogs import CATALOG_TYPES
from deltasnap_assets.settings.config import AlertSettings, Settings, SparkSettings
from deltasnap_assets.settings.loading import demo_settings
from deltasnap_assets.settings.table_settings import ASSET_NAMES, CheckpointSettings, DiscoverSettings, TableSettings
from deltasnap_core.replay.engine import LIMITS, Question

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = (
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
)

_PART = re.compile(r"(?<=<!-- generated from code: )(?P<name>\w+) -->\n.*?(?=<!-- end -->)", re.DOTALL)


def filled_in(text: str) -> str:
    """Return a document with its generated parts updated."""
    return _PART.sub(lambda match: f"{match['name']} -->\n{_PARTS[match['name']]()}\n", text)


def _keys() -> str:
    tables: dict[str, tuple[type[BaseModel], Sequence[str]]] = {
        "At the top": (Settings, ()),
        "`spark`": (SparkSettings, ()),
        "`alerts`": (AlertSettings, ()),
        **{f"`catalogs`, type `{kind}`": (model, ()) for kind, model in CATALOG_TYPES.items()},
        "`tables`": (TableSettings, ("name", "path", "table", "catalog")),
        "`checks`": (CheckSettings, ()),
        "`checks`, below the name of a check": (CheckOptions, ()),
        "`checkpoint`": (CheckpointSettings, ()),
        "`discover`": (DiscoverSettings, ("path", "table", "exclude", "name")),
    }
    return "\n\n".join(f"### {title}\n{_keys_of(model, first)}" for title, (model, first) in tables.items())


def _keys_of(model: type[BaseModel], first: Sequence[str]) -> str:
    """Return the keys of a model, the `first` ones first; for tables by pattern, only keys that tables do not have."""
    shared = TableSettings.model_fields if model is DiscoverSettings else {}
    names = [*first, *(name for name in model.model_fields if name not in (*first, *shared))]
    # All checks have the same options: they are described once.
    fields = [(name, field) for name in names if (field := model.model_fields[name]).annotation is not CheckOptions]
    rows = [(f"`{name}`", _default_text(field), " ".join((field.description or "").split())) for name, field in fields]
    return _table(("key", "default", "description"), rows)


def _default_text(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    match field.get_default(call_default_factory=True):
        case None:
            return "`null`"
        case BaseModel() | () | {}:
            return ""
        case tuple() as values:
            return f"`[{', '.join(map(str, values))}]`"
        case value:
            return f"`{value}`"


def _assets() -> str:
    specs = {spec.key.path[-1]: spec for spec in _definitions().resolve_all_asset_specs()}
    rows = [(f"`{name}`", specs[name].description or "", ", ".join(sorted(specs[name].kinds))) for name in ASSET_NAMES]
    return _table(("asset", "content of a partition (one version)", "kinds"), rows)


def _checks() -> str:
    return _table(
        ("check", "asset", "expectation", "what to do if it fails"),
        [(f"`{check.name}`", f"`{check.asset}`", check.expects, check.advice) for check in CHECKS],
    )


def _automation() -> str:
    settings = demo_settings(ROOT)
    alerts = AlertSettings.model_validate({"urls": ["json://chat.example"]})
    made = build_definitions(settings.model_copy(update={"alerts": alerts}))
    named: Iterable[Any] = (*(made.sensors or ()), *(made.schedules or ()), *(made.jobs or ()))
    return _table(("name", "description"), ((f"`{each.name}`", each.description) for each in named))


def _definitions() -> dg.Definitions:
    return build_definitions(demo_settings(ROOT))


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["-"] * len(header), *rows]
    return "\n".join(f"|{'|'.join(line)}|" if line[0] == "-" else f"| {' | '.join(line)} |" for line in lines)


def _limits() -> str:
    counted = LIMITS[Question.COUNT]  # the files that the commits change are looked up in the stored version
    more = {Question.APPLY: f", on a version of up to {counted.most:,}"}
    rows = [
        (question.value, f"{limit.most:,} {limit.unit}{more.get(question, '')}", limit.driver, limit.spark)
        for question, limit in LIMITS.items()
    ]
    return _table(("the driver computes", "up to", "cost on the driver", "cost on Spark"), rows)


def _commands() -> str:
    group = typer.main.get_command(app)
    return "\n\n".join(_commands_of(group, typer.Context(group, info_name="deltasnap")))


def _commands_of(group: Any, context: Any) -> Iterator[str]:
    """Yield a section for each command of a group, and of the groups in it."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        inner = typer.Context(command, info_name=name, parent=context)
        yield _command(command, inner)
        if hasattr(command, "list_commands"):
            yield from _commands_of(command, inner)


def _command(command: Any, context: Any) -> str:
    rows = [
        (f"`{_parameter_text(each)}`", _default_text_of(each.default), each.help)
        for each in command.params
        if each.help
    ]
    words = [_parameter_text(each) for each in command.params if each.param_type_name == "argument"]
    help_text = "\n\n".join(fill(" ".join(part.split()), 120) for part in command.help.split("\n\n"))
    usage = "" if hasattr(command, "list_commands") else f"\n\n    {' '.join([context.command_path, *words])}"
    table = f"\n\n{_table(('option', 'default', 'description'), rows)}" if rows else ""
    return f"## {context.command_path}\n{help_text}{usage}{table}"


def _parameter_text(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = parameter.metavar or parameter.name.upper()
        return f"{name if parameter.required else f'[{name}]'}{'' if parameter.nargs == 1 else '...'}"
    names = [*parameter.opts, *parameter.secondary_opts]
    return ", ".join(names) + (f" {parameter.metavar}" if parameter.metavar else "")


def _default_text_of(value: object) -> str:
    return "" if value is None or value is False else f"`{value}`"


_PARTS: Mapping[str, Callable[[], str]] = {
    "limits": _limits,
    "keys": _keys,
    "assets": _assets,
    "checks": _checks,
    "automation": _automation,
    "commands": _commands,
}
