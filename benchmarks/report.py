"""Findings as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.measure import Finding, Samples


def show(console: Console, title: str, findings: Sequence[Finding]) -> None:
    """Print results: medians, minimums, ratios of both, targets; then the parts of the times."""
    table = Table("benchmark", title=title, title_justify="left", caption_justify="left")
    for column in ("deltasnap", "compared with", "ratio", "target"):
        table.add_column(column, justify="right" if column != "compared with" else "left")
    for finding in findings:
        question = f"{finding.question}\n[dim]{finding.note}[/dim]" if finding.note else finding.question
        table.add_row(question, _samples(finding.ours, finding.unit), _peer(finding), _ratio(finding), _aim(finding))
    console.print(table)
    for finding in findings:
        if finding.parts:
            parts = ", ".join(f"{name} {number(value)}" for name, value in finding.parts.items())
            console.print(f"[dim]{finding.question}, {finding.unit}: {parts}[/dim]", highlight=False)


def markdown(findings: Sequence[Finding]) -> str:
    """Return results as a Markdown table: medians, ratios of medians and of minimums."""
    lines = [
        "| benchmark | deltasnap | compared with | ratio (of minimums) | ratio of CPU seconds | target |",
        "|-|-|-|-|-|-|",
    ]
    for finding in findings:
        theirs = finding.theirs
        peer = "" if theirs is None else f"{number(theirs.median)} {finding.unit}, {finding.peer}"
        ratio, least = finding.ratio, finding.ratio_of_minima
        ratios = "" if ratio is None or least is None else f"{number(ratio)} ({number(least)})"
        aim = ""
        if finding.aim is not None:
            unit = "x" if finding.aim.is_ratio else finding.unit
            aim = f"<= {finding.aim.at_most:g} {unit}, {'met' if finding.is_met else 'missed'}"
        lines.append(
            f"| {finding.question} | {number(finding.ours.median)} {finding.unit} | {peer} | {ratios}"
            f" | {'' if finding.ratio_of_cpu is None else number(finding.ratio_of_cpu)} | {aim} |"
        )
    return "\n".join(lines) + "\n"


def number(value: float) -> str:
    """Return a number with three significant digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}".rstrip(".")


def _samples(samples: Samples, unit: str) -> str:
    text = f"{number(samples.median)} {unit}"
    if len(samples.values) > 1:
        text += f"\n[dim]min {number(samples.minimum)}[/dim]"
    return text if samples.median_cpu is None else f"{text}\n[dim]CPU {number(samples.median_cpu)} s[/dim]"


def _peer(finding: Finding) -> str:
    if finding.theirs is None:
        return ""
    return f"{_samples(finding.theirs, finding.unit)}\n[dim]{finding.peer}[/dim]"


def _ratio(finding: Finding) -> str:
    if finding.ratio is None or finding.ratio_of_minima is None:
        return ""
    text = number(finding.ratio)
    is_one = finding.theirs is not None and len(finding.ours.values) == len(finding.theirs.values) == 1
    if not is_one:
        text += f"\n[dim]minima {number(finding.ratio_of_minima)}[/dim]"
    return text if finding.ratio_of_cpu is None else f"{text}\n[dim]CPU {number(finding.ratio_of_cpu)}[/dim]"


def _aim(finding: Finding) -> str:
    if finding.aim is None:
        return ""
    unit = "x" if finding.aim.is_ratio else finding.unit
    colour, word = ("green", "met") if finding.is_met else ("red", "missed")
    return f"<= {finding.aim.at_most:g} {unit}\n[{colour}]{word}[/{colour}]"
