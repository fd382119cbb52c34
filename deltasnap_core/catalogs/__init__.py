"""Catalogs, which know tables by name: `DeltaLog.for_table(spark, "main.silver.events", catalog=...)`."""

from __future__ import annotations

from deltasnap_core.catalogs.glue import GlueCatalog
from deltasnap_core.catalogs.spark_catalog import SparkCatalog
from deltasnap_core.catalogs.unity import UnityCatalog
from deltasnap_core.log.catalog import Catalog, CatalogTable

__all__ = ("Catalog", "CatalogTable", "GlueCatalog", "SparkCatalog", "UnityCatalog")
