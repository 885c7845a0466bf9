"""The client of the records API: `Records` for code that blocks, `AsyncRecords` for coroutines.

```python
from holdfast_systems.records.client import Records, RenderDBError

with Records("https://records.example/records", api_key="rdb_…") as records:
    company = records.create_company("Acme", website="https://acme.example")
    try:
        records.assign_slot(f"SL-{company.company_uid}-CEO", "PE-20240828-000001")
    except RenderDBError as error:
        print(error.code, error.retryable, error.details)
```

Every write has an idempotency key, so that it is repeated safely; what is repeated, and when, is what the catalog says.
"""

from holdfast_systems.records.client.asynchronous import AsyncRecords
from holdfast_systems.records.client.errors import RenderDBError
from holdfast_systems.records.client.models import (
    Assignment,
    Company,
    CreatedCompany,
    CreatedPerson,
    Enrichment,
    Import,
    ImportRow,
    Person,
    Review,
    Slot,
    Verification,
)
from holdfast_systems.records.client.sync import Records

__all__ = [
    "Assignment",
    "AsyncRecords",
    "Company",
    "CreatedCompany",
    "CreatedPerson",
    "Enrichment",
    "Import",
    "ImportRow",
    "Person",
    "Records",
    "RenderDBError",
    "Review",
    "Slot",
    "Verification",
]
