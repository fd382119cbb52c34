"""What the app needs of the core beyond its documented names, in `support.pyi`. It may change in any release."""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("deltasnap_core", __file__)
