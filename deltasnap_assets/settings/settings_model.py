"""The base of all settings. Secrets are never shown."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, SecretStr, field_validator

from deltasnap_assets.checks.check_settings import boolean_as_text
from deltasnap_core.support import learn_options, learn_settings, redacted


class SettingsModel(BaseModel):
    """Values of a configuration file."""

    # The text below a field is its description in the documentation, the schema for `dg`, and error messages.
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True)
    _numbers = field_validator("*", mode="before")(boolean_as_text)

    def model_post_init(self, _: Any) -> None:
        learn_options(getattr(self, "storage_options", {}))
        learn_options(getattr(self, "options", {}))
        learn_settings(getattr(self, "config", {}))
        for name in type(self).model_fields:
            if isinstance(value := getattr(self, name), SecretStr):
                learn_options({"secret": value.get_secret_value()})

    def __repr__(self) -> str:
        return redacted(super().__repr__())

    def __str__(self) -> str:
        return redacted(super().__str__())
