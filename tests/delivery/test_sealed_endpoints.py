"""The secrets and headers of endpoints are encrypted at rest where a key is set."""

from __future__ import annotations

import pytest

from holdfast.base import Secret
from holdfast.catalog import Failure
from holdfast.delivery import Deliveries
from holdfast.store import Store
from holdfast.store.sealing import VARIABLE
from holdfast.worker import Jobs

OLD, NEW = "an old key of thirty-two characters", "a newer key of thirty-two characters"
URL = "https://shop.example/hooks"
TOKEN = "token-of-the-receiver"


@pytest.fixture
def deliveries(store: Store, monkeypatch: pytest.MonkeyPatch) -> Deliveries:
    monkeypatch.delenv(VARIABLE, raising=False)
    return Deliveries(store, Jobs(store))


def rows(store: Store) -> str:
    """Everything that the database holds of endpoints and their secrets."""
    with store.database.transaction(write=False) as execute:
        tables = ("holdfast_webhook_endpoint", "holdfast_webhook_secret", "holdfast_journal")
        return str([execute(f"SELECT * FROM {table}", {}).fetchall() for table in tables])


def test_neither_the_secret_nor_a_header_can_be_read_from_the_database(
    deliveries: Deliveries, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, OLD)
    made = deliveries.endpoints.add(URL, headers={"Authorization": Secret(f"Bearer {TOKEN}")})
    rotated = deliveries.endpoints.rotate_secret(made.id)
    held = deliveries.endpoints.show(made.id)
    assert [one.secret for one in held.secrets] == [rotated, made.secrets[0].secret]
    assert held.headers["Authorization"].reveal() == f"Bearer {TOKEN}"
    stored = rows(store)
    assert not [secret for secret in (TOKEN, rotated.reveal(), made.secrets[0].secret.reveal()) if secret in stored]


def test_what_was_plain_is_read_and_encrypted_by_the_next_write(
    deliveries: Deliveries, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = deliveries.endpoints.add(URL, headers={"X-Token": Secret(TOKEN)})
    secret = made.secrets[0].secret
    assert secret.reveal() in rows(store)
    monkeypatch.setenv(VARIABLE, OLD)
    assert deliveries.endpoints.show(made.id).secrets == made.secrets
    deliveries.endpoints.update(made.id, timeout_s=5.0)
    assert secret.reveal() not in rows(store)
    assert TOKEN not in rows(store)
    assert deliveries.endpoints.show(made.id).secrets == made.secrets


def test_all_of_them_are_encrypted_with_the_key_in_force_at_once(
    deliveries: Deliveries, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [deliveries.endpoints.add(f"{URL}/{number}") for number in range(3)]
    monkeypatch.setenv(VARIABLE, OLD)
    assert deliveries.endpoints.reseal() == 3
    assert deliveries.endpoints.reseal() == 0
    assert not [one for one in made if one.secrets[0].secret.reveal() in rows(store)]
    monkeypatch.setenv(VARIABLE, f"{NEW},{OLD}")
    assert deliveries.endpoints.reseal() == 3
    monkeypatch.setenv(VARIABLE, NEW)
    assert [deliveries.endpoints.show(one.id).secrets for one in made] == [one.secrets for one in made]
    monkeypatch.setenv(VARIABLE, OLD)
    with pytest.raises(Failure, match="SECRET_UNREADABLE"):
        deliveries.endpoints.show(made[0].id)
