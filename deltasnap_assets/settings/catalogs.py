"""The catalogs of a configuration, which know tables by name."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Discriminator, Field, PrivateAttr, SecretStr, Tag, field_validator

from deltasnap_assets.settings.settings_model import SettingsModel
from deltasnap_core.catalogs import Catalog, CatalogTable, GlueCatalog, SparkCatalog, UnityCatalog
from deltasnap_core.errors import CatalogError
from deltasnap_core.support import RememberedCatalog, SparkProvider

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME_PART, _PATTERN_PART = r"[^.*?\[\]/\s`]+", r"[^./\s`]+"
NOT_A_NAME = "its name has a space, or one of / * ? [ ] `"
"""Why a table that a catalog lists cannot be named."""


def is_table_name(text: str, *, is_pattern: bool = False) -> bool:
    """Return whether a text may be the name of a table in a catalog, or a pattern: parts separated by dots."""
    part = _PATTERN_PART if is_pattern else _NAME_PART
    return re.fullmatch(rf"{part}(\.{part})+", text) is not None


class _CatalogSettings(SettingsModel, ABC):
    _opened: RememberedCatalog | None = PrivateAttr(default=None)

    @property
    def catalog(self) -> Catalog:
        """The catalog. One object serves a process."""
        return self._remembered

    @property
    def _remembered(self) -> RememberedCatalog:
        if self._opened is None:
            self._opened = RememberedCatalog(self._open())
        return self._opened

    def own_name(self, name: str) -> str:
        """Return the name that the catalog gives to a table. name: begins with the key of the catalog."""
        return name.partition(".")[2]

    @abstractmethod
    def _open(self) -> Catalog:
        """Return the catalog."""


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


class UnityCatalogSettings(_CatalogSettings):
    """Unity Catalog, of Databricks or the open-source server. Needs the extra `unity`."""

    type: Literal["unity"]
    """`unity`."""
    host: str = Field(min_length=1)
    """The workspace or server: `https://WORKSPACE.cloud.databricks.com`."""
    token: SecretStr | None = None
    """A personal access token or another bearer token. It is a secret: write `token: "${DATABRICKS_TOKEN}"`."""

    def own_name(self, name: str) -> str:
        """Return the name: Unity Catalog has catalogs, so its names begin with one."""
        return name

    def _open(self) -> Catalog:
        return UnityCatalog(self.host, None if self.token is None else self.token.get_secret_value())

    @field_validator("host")
    @classmethod
    def _is_host(cls, host: str) -> str:
        UnityCatalog(host)
        return host


class SparkCatalogSettings(_CatalogSettings):
    """The catalogs of the Spark session, such as Hive's metastore. Runs look tables up, ticks use what runs found."""

    type: Literal["spark"]
    """`spark`."""
    _sessions: SparkProvider | None = PrivateAttr(default=None)

    def use(self, sessions: SparkProvider) -> None:
        """Ask the catalog of this session from now on."""
        self._sessions, self._opened = sessions, None

    def recall(self, name: str, location: str) -> None:
        """Use a location that a run found, until a session is used. name: in the catalog."""
        if self._sessions is None and not self._remembered.has(name):
            self._remembered.remember(CatalogTable.of(name, location))

    def session(self, reason: str) -> SparkSession:
        """Return the session. Errors: CatalogError if there is none in this process."""
        if self._sessions is None:
            raise CatalogError(
                table=reason,
                reason="its location is not known yet, because only a process with a Spark session can find it: "
                "refresh once, as the job `refresh_all_tables` does",
            )
        return self._sessions.session(reason)

    def setting(self, name: str) -> str | None:
        """Return a property of the session; None: it is not set."""
        return None if self._sessions is None else self._sessions.setting(name)

    def _open(self) -> Catalog:
        return SparkCatalog(self)


def _type_of(values: Any) -> Any:
    return values.get("type") if isinstance(values, dict) else getattr(values, "type", None)


CatalogSettings = Annotated[
    Annotated[GlueCatalogSettings, Tag("glue")]
    | Annotated[UnityCatalogSettings, Tag("unity")]
    | Annotated[SparkCatalogSettings, Tag("spark")],
    Discriminator(_type_of),
]
"""One catalog; its `type` selects the class."""
CATALOG_TYPES: dict[str, type[SettingsModel]] = {
    "glue": GlueCatalogSettings,
    "unity": UnityCatalogSettings,
    "spark": SparkCatalogSettings,
}
