from __future__ import annotations

import tests.assets.command.fast_typer  # noqa: F401
