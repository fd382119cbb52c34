"""Commands about the configuration: its schema for editors, and a test of its alerts."""

from __future__ import annotations

import json

import typer
from rich.console import Console

from deltasnap_assets.command.help_text import CommandLine
from deltasnap_assets.command.terminal import print_problem

alerts = CommandLine(name="alerts", no_args_is_help=True, help="The services of `alerts` in the configuration.")
config = CommandLine(name="config", no_args_is_help=True, help="The configuration.")


@alerts.command("test")
def test_alerts() -> None:
    """Send a test message to each service. Exits with 1 if one of them does not accept it, or if there is none."""
    from deltasnap_assets.command.endings import fail
    from deltasnap_assets.runs.condition.services import check_apprise, send, service_of
    from deltasnap_assets.settings.loading import load_settings

    urls = load_settings().alerts.urls
    if not urls:
        fail("`alerts` has no urls: there is no service to test.")
    check_apprise()
    problems = [send(service_of(url.get_secret_value()), "A test message of deltasnap.", "success") for url in urls]
    for place, problem in enumerate(problems):
        if problem is None:
            typer.echo(f"alerts.urls[{place}]: accepted")
        else:
            print_problem(Console(stderr=True), "error", f"alerts.urls[{place}]: {problem}")
    if any(problems):
        raise typer.Exit(1)


@config.command("schema")
def schema() -> None:
    """Print the JSON Schema of deltasnap.yaml, for editors."""
    from deltasnap_assets.settings.config import Settings

    document = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Settings.model_json_schema()}
    typer.echo(json.dumps(document, indent=2))
