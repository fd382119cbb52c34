"""The catalogs of a configuration, which know tables by name."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, PrivateAttr

from deltasnap_assets.settings.settings_model import SettingsModel
from deltasnap_core.catalogs import Catalog, GlueCatalog
from deltasnap_core.support import RememberedCatalog

_NAME_PART, _PATTERN_PART = r"[^.*?\[\]/\s`]+", r"[^./\s`]+"


def is_table_name(text: str, *, is_pattern: bool = False) -> bool:
    """Return whether a text may be the name of a table in a catalog, or a pattern: parts separated by dots."""
    part = _PATTERN_PART if is_pattern else _NAME_PART
    return re.fullmatch(rf"{part}(\.{part})+", text) is not None


class _CatalogSettings(SettingsModel):
    _opened: RememberedCatalog | None = PrivateAttr(default=None)

    @property
    def catalog(self) -> Catalog:
        """The catalog. One object serves a process."""
        if self._opened is None:
            self._opened = RememberedCatalog(self._open())
        return self._opened

    def own_name(self, name: str) -> str:
        """Return the name that the catalog gives to a table. name: begins with the key of the catalog."""
        return name.partition(".")[2]

    def _open(self) -> Catalog:
        raise NotImplementedError


class GlueCatalogSettings(_CatalogSettings):
    """The AWS Glue Data Catalog. Needs the extra `glue`."""

    type: Literal["glue"]
    """`glue`."""
    region: str | None = None
    """The region; `null`: that of the environment."""
    profile: str | None = None
    """A profile of the AWS configuration files."""
    catalog_id: str | None = None
    """The account of the catalog; `null`: that of the credentials."""
    options: dict[str, Any] = Field(default_factory=dict, repr=False)
    """Other options of boto3's client: `{endpoint_url: ..., aws_access_key_id: "${KEY}"}`."""

    def _open(self) -> Catalog:
        region = {} if self.region is None else {"region_name": self.region}
        return GlueCatalog(catalog_id=self.catalog_id, profile_name=self.profile, **region, **self.options)


CatalogSettings = GlueCatalogSettings
"""One catalog; its `type` selects the class."""
