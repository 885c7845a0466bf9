"""Secrets in the store: encrypted where a key is set, readable before and after, bound to their place."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.base import Secret
from holdfast.catalog import Failure
from holdfast.store import Store
from holdfast.store.sealing import MARK, VARIABLE, KeyInvalid, is_current, keys_of, seal, unseal
from holdfast.store.shared_secret import shared_secret

OLD, NEW = "an old key of thirty-two characters", "a newer key of thirty-two characters"
SECRET = Secret("whsec_of a receiver")


@pytest.fixture
def keyed(monkeypatch: pytest.MonkeyPatch):
    """Sets the variable; nothing takes it away."""

    def key(text: str | None) -> None:
        monkeypatch.delenv(VARIABLE, raising=False) if text is None else monkeypatch.setenv(VARIABLE, text)

    key(None)
    return key


def test_without_a_key_a_secret_is_stored_as_it_is(keyed) -> None:
    stored = seal(SECRET, "here")
    assert stored == SECRET.reveal()
    assert unseal(stored, "here") == SECRET
    assert is_current(stored)


def test_with_a_key_it_is_not_to_be_read_and_never_the_same_twice(keyed) -> None:
    keyed(OLD)
    stored = [seal(SECRET, "here") for _ in range(2)]
    assert len(set(stored)) == 2
    assert all(one.startswith(f"{MARK}{keys_of({VARIABLE: OLD})[0].name}:") for one in stored)
    assert SECRET.reveal() not in "".join(stored)
    assert [unseal(one, "here") for one in stored] == [SECRET, SECRET]


def test_what_was_stored_before_there_was_a_key_is_still_read(keyed) -> None:
    stored = seal(SECRET, "here")
    keyed(OLD)
    assert unseal(stored, "here") == SECRET
    assert not is_current(stored)


def test_keys_are_changed_by_naming_both_the_new_one_first(keyed) -> None:
    keyed(OLD)
    stored = seal(SECRET, "here")
    keyed(f"{NEW}, {OLD}")
    assert unseal(stored, "here") == SECRET
    assert not is_current(stored)
    again = seal(SECRET, "here")
    keyed(NEW)
    assert unseal(again, "here") == SECRET
    assert is_current(again)


@pytest.mark.parametrize("key", [None, NEW])
def test_without_its_key_it_is_unreadable_and_the_failure_names_the_key(keyed, key: str | None) -> None:
    keyed(OLD)
    stored = seal(SECRET, "webhook_secret:ep_7")
    keyed(key)
    with pytest.raises(Failure, match="SECRET_UNREADABLE") as caught:
        unseal(stored, "webhook_secret:ep_7")
    assert caught.value.details["key"] == keys_of({VARIABLE: OLD})[0].name
    assert OLD not in str(caught.value)


def test_it_cannot_be_changed_or_moved_to_another_place(keyed) -> None:
    keyed(OLD)
    stored = seal(SECRET, "here")
    for wrong, place in ((stored, "there"), (stored[:-6] + "AAAA==", "here"), (stored[:-8], "here")):
        with pytest.raises(Failure, match="SECRET_UNREADABLE"):
            unseal(wrong, place)


def test_a_short_key_is_refused(keyed) -> None:
    keyed("short")
    with pytest.raises(KeyInvalid, match="32 characters"):
        seal(SECRET, "here")


def test_a_plain_secret_cannot_pass_for_an_encrypted_one(keyed) -> None:
    with pytest.raises(ValueError, match="cannot begin with"):
        seal(Secret(f"{MARK}x:y"), "here")


def test_a_shared_secret_is_made_once_and_encrypted_when_it_is_next_asked_for(store: Store, keyed) -> None:
    first = shared_secret(store, "shop:session")
    assert stored_text(store) == first.reveal()
    keyed(OLD)
    assert shared_secret(store, "shop:session") == first
    assert first.reveal() not in stored_text(store)
    keyed(f"{NEW},{OLD}")
    assert shared_secret(store, "shop:session") == first
    keyed(NEW)
    assert shared_secret(store, "shop:session") == first


def test_machines_that_start_together_agree_on_one_secret(store: Store, keyed) -> None:
    keyed(OLD)
    with ThreadPoolExecutor(8) as threads:
        secrets = {secret.reveal() for secret in threads.map(lambda _: shared_secret(store, "shop:session"), range(8))}
    assert len(secrets) == 1
    assert len(secrets.pop()) == 64


def stored_text(store: Store) -> str:
    found = store.atomic(lambda tx: tx.row("secret.find", name="shop:session"), write=False)
    assert found is not None
    return str(found[0])
