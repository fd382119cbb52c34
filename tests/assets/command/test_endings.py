"""How commands end: exit codes, Ctrl-C, closed pipes, unusable folders."""

from __future__ import annotations

import pytest

from deltasnap_assets.command import cli


def test_interrupted_command_exits_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("deltasnap_assets.command.doctor.examine", interrupted)
    monkeypatch.setattr("sys.argv", ["deltasnap", "doctor"])
    with pytest.raises(SystemExit) as end:
        cli.run()
    assert (end.value.code, capsys.readouterr().err) == (130, "error: interrupted\n")
