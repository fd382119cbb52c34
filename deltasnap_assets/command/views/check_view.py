"""The results of `deltasnap check`, and their formats."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import typer
import yaml
from pydantic import ValidationError
from rich.console import Console

from deltasnap_assets.checks.check_settings import CheckSettings
from deltasnap_assets.checks.registry import CHECKS, checks_of
from deltasnap_assets.command.output import CheckFormat, csv_text, json_text
from deltasnap_assets.command.table_on_spark import configured_spark
from deltasnap_assets.command.targets import Target
from deltasnap_assets.command.terminal import WIDEST, output_aside, print_line, shown
from deltasnap_assets.quantities import counted
from deltasnap_assets.settings.loading import message_of
from deltasnap_assets.tables.checks.checks_now import CheckedTable, CheckResult, check_now
from deltasnap_assets.texts import lines_joined, visible
from deltasnap_core.support import redacted

_MAX_TEXT_LENGTH = 4000
_COLORS = {"passed": "green", "skipped": "dim", "warning": "yellow", "error": "red"}
_GITHUB_LEVELS = {"warning": "warning", "error": "error"}
_NOT_REACHED = 3


def chosen_checks(text: str | None) -> frozenset[str] | None:
    """Return the names of checks in the text of `--select`; None: there is none. Errors: typer.BadParameter."""
    if text is None:
        return None
    known, names = {check.name for check in CHECKS}, {name.strip() for name in text.split(",")}
    if unknown := sorted(names - known):
        message = f"No check named {', '.join(unknown)}. Checks: {', '.join(sorted(known))}."
        raise typer.BadParameter(message, param_hint="--select")
    return frozenset(names)


def limits_of(texts: Sequence[str]) -> dict[str, Any]:
    """Return the values of `LIMIT=VALUE` texts, as in YAML, by limit. Errors: typer.BadParameter."""
    try:
        limits = {name: yaml.safe_load(value) for name, _, value in (text.partition("=") for text in texts)}
    except (yaml.YAMLError, ValueError, RecursionError):  # a ValueError for the date 2026-13-01
        raise typer.BadParameter("Expected LIMIT=VALUE.", param_hint="--set") from None
    try:
        CheckSettings(**limits)
    except ValidationError as error:
        problem = error.errors()[0]
        name = ".".join(map(str, problem["loc"]))
        message = message_of({**problem, "loc": ("tables", "checks", *problem["loc"])})
        raise typer.BadParameter(f"{name}: {message}.", param_hint="--set") from None
    return limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The results of all targets, in order."""

    tables: Sequence[tuple[Target, CheckedTable]]
    fails_on_warnings: bool

    @property
    def exit_code(self) -> int:
        """1 if a check failed; otherwise 3 if a table was not reached; otherwise 0."""
        if any(self._fails(result) for _, table in self.tables for result in table.results):
            return 1
        return _NOT_REACHED if any(table.unreachable for _, table in self.tables) else 0

    def text(self, form: CheckFormat) -> str:
        """Return the results in a format."""
        match form:
            case "table":
                return self._lines()
            case "json":
                return self._json()
            case "csv":
                return csv_text(self._rows())
            case "junit":
                return self._junit()
            case "github":
                return self._annotations()

    def _fails(self, result: CheckResult) -> bool:
        return result.severity == "error" or (self.fails_on_warnings and result.severity is not None)

    def _lines(self) -> str:
        file = io.StringIO()
        console = Console(file=file, width=WIDEST)
        for target, table in self.tables:
            print_line(console, shown(redacted(target.name), style="bold"))
            if table.unreachable is not None:
                print_line(console, shown(f"  not reached  {_line(table.unreachable)}", style="red"))
            for result in table.results:
                mark = result.severity or result.status
                print_line(console, shown(f"  {mark:8} {result.check.name}: {_line(result.verdict.description)}"))
                if result.severity is not None:
                    print_line(console, shown(f"           {_line(result.check.advice_of(result.verdict))}"))
        results = [result for _, table in self.tables for result in table.results]
        failed, warned = (sum(result.severity == each for result in results) for each in ("error", "warning"))
        passed = sum(result.status == "passed" for result in results)
        print_line(console, shown(f"{counted(passed, 'check')} passed, {failed} failed, {counted(warned, 'warning')}"))
        return file.getvalue()

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {
                "target": redacted(target.name),
                "version": table.version,
                "check": result.check.name,
                "status": result.status,
                "severity": result.severity,
                "description": _line(result.verdict.description),
                "advice": _line(result.check.advice_of(result.verdict)) if result.severity else None,
                "numbers": dict(result.verdict.numbers),
            }
            for target, table in self.tables
            for result in table.results
        ]

    def _json(self) -> str:
        unreachable = [
            {"target": redacted(target.name), "reason": _line(table.unreachable)}
            for target, table in self.tables
            if table.unreachable is not None
        ]
        return json_text({"exit_code": self.exit_code, "rows": self._rows(), "unreachable": unreachable}) + "\n"

    def _junit(self) -> str:
        root = ElementTree.Element("testsuites", name="deltasnap")
        for target, table in self.tables:
            name = _line(redacted(target.name))
            suite = ElementTree.SubElement(root, "testsuite", {"name": name, **self._counts(table)})
            if table.unreachable is not None:
                case = ElementTree.SubElement(suite, "testcase", classname=name, name="log")
                ElementTree.SubElement(case, "error", message=_line(table.unreachable))
            for result in table.results:
                case = ElementTree.SubElement(suite, "testcase", classname=name, name=result.check.name)
                text = _line(result.check.text_of(result.verdict))
                if self._fails(result):
                    ElementTree.SubElement(case, "failure", message=text, type=str(result.severity))
                elif result.status == "skipped":
                    ElementTree.SubElement(case, "skipped", message=text)
                else:
                    ElementTree.SubElement(case, "system-out").text = text
        ElementTree.indent(root)
        return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"

    def _counts(self, table: CheckedTable) -> dict[str, str]:
        errors = int(table.unreachable is not None)
        return {
            "tests": str(len(table.results) + errors),
            "failures": str(sum(map(self._fails, table.results))),
            "errors": str(errors),
            "skipped": str(sum(result.status == "skipped" for result in table.results)),
        }

    def _annotations(self) -> str:
        return "".join(self._annotation_lines())

    def _annotation_lines(self) -> Iterator[str]:
        """Yield workflow commands of GitHub Actions: an annotation for each failure."""
        for target, table in self.tables:
            name = _line(redacted(target.name))
            if table.unreachable is not None:
                yield _annotation("error", name, _line(table.unreachable))
            for result in table.results:
                if result.severity is not None:
                    title = f"{name}: {result.check.name}"
                    yield _annotation(result.severity, title, _line(result.check.text_of(result.verdict)))


def check_targets(
    targets: Iterable[Target], checks: frozenset[str] | None, limits: Mapping[str, Any]
) -> tuple[tuple[Target, CheckedTable], ...]:
    """Return the results of all tables, each once.

    checks: names; None: those that are on. limits: replace those of the configuration.
    Errors: those of the configuration, and JavaError.
    """
    found: dict[str, tuple[Target, CheckedTable]] = {}
    spark = configured_spark()
    for target in targets:
        if target.place not in found:
            with output_aside():
                found[target.place] = target, _checked(target, checks, limits, spark)
    return tuple(found.values())


def _checked(target: Target, checks: frozenset[str] | None, limits: Mapping[str, Any], spark: Any) -> CheckedTable:
    if target.table is None:
        return CheckedTable(unreachable=target.problem)
    settings = CheckSettings(**{**target.table.checks.model_dump(), **limits})
    names = {check.name for check in checks_of(settings, CHECKS)} if checks is None else checks
    is_on = {name: getattr(settings, name).model_copy(update={"enabled": True}) for name in names}
    table = target.table.model_copy(update={"checks": settings.model_copy(update=is_on)})
    return check_now(table, spark, names)


def _line(text: str) -> str:
    return visible(lines_joined(text), _MAX_TEXT_LENGTH)


def _annotation(level: str, title: str, text: str) -> str:
    escaped = text.replace("%", "%25")
    named = title.replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={named}::{escaped}\n"
