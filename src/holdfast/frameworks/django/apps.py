"""The app as Django's registry knows it."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class HoldfastConfig(AppConfig):
    """Brings the tables up to date with `manage.py migrate`, also in the databases of tests."""

    name = "holdfast.frameworks.django"
    label = "holdfast"
    verbose_name = "Holdfast"

    def ready(self) -> None:
        """Called once Django is set up."""
        post_migrate.connect(_migrate, sender=self, dispatch_uid="holdfast.migrate")


def _migrate(*, using: str, verbosity: int = 1, **_: Any) -> None:
    from holdfast.frameworks.django.stores import DEFAULT_ALIAS, is_served, store

    if using == DEFAULT_ALIAS and is_served(using):
        ran = store(using).migrate()
        if verbosity and ran:
            print(f"  Holdfast: {', '.join(ran)}")  # noqa: T201 - as Django's own commands tell
