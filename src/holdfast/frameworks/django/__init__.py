"""A Django app: the store stands in Django's own database, and `manage.py` runs its workers.

Add `holdfast.frameworks.django` to `INSTALLED_APPS`, and name your handlers in `HOLDFAST_HANDLERS`, such as
`"shop.jobs:handlers"`.
"""

from holdfast.frameworks.django.stores import jobs, keys, store

__all__ = ["jobs", "keys", "store"]
