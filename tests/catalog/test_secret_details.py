"""A detail that is named like a secret, or looks like one, does not leave in an error body."""

from __future__ import annotations

import pytest

from holdfast.catalog import Catalog, Dialect, render

shop = Catalog("shop")
REFUSED = shop.fault("REFUSED", status=400, says="{item} was refused for {password}.")

HIDDEN = {
    "password": "hunter2-a",
    "api_key": "hunter2-b",
    "nested": {"list": [{"cvv2": "hunter2-c"}], "field": "passphrase", "value": "hunter2-d"},
    "dsn": "postgresql://app:hunter2-e@db/shop",
    "reason": "the server said: password=hunter2-f",
}


@pytest.mark.parametrize("dialect", Dialect)
def test_no_dialect_shows_it(dialect: Dialect) -> None:
    body = render(REFUSED(item="lamp", **HIDDEN), dialect).body.decode()
    assert "hunter2" not in body
    assert "lamp was refused for ***." in body
    assert '"item":"lamp"' in body


def test_nor_does_the_sentence_that_a_page_or_a_log_shows() -> None:
    failure = REFUSED(item="lamp", **HIDDEN)
    assert failure.message == "lamp was refused for ***."
    assert "hunter2" not in str(failure)
