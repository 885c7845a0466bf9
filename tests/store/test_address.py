"""Where the store is: which addresses are understood, and that none of them shows a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.store import AddressInvalid, Engine, Store, read_address
from holdfast.store.address import DEFAULT_ADDRESS, ENVIRONMENT_VARIABLE


@pytest.mark.parametrize(
    ("url", "engine", "target"),
    [
        ("sqlite:///relative/file.db", Engine.SQLITE, "relative/file.db"),
        ("sqlite:////absolute/file.db", Engine.SQLITE, "/absolute/file.db"),
        ("sqlite://", Engine.SQLITE, ":memory:"),
        ("sqlite:///:memory:", Engine.SQLITE, ":memory:"),
        ("postgresql://u@h/d", Engine.POSTGRESQL, "postgresql://u@h/d"),
        ("postgres://u@h/d", Engine.POSTGRESQL, "postgres://u@h/d"),
        ("postgresql://h1:1,h2:2/d?a=b", Engine.POSTGRESQL, "postgresql://h1:1,h2:2/d?a=b"),
        ("postgresql://u@h/d?pooled=1&a=b&schema=s", Engine.POSTGRESQL, "postgresql://u@h/d?a=b"),
        ("postgresql://h/d?options=a,b", Engine.POSTGRESQL, "postgresql://h/d?options=a,b"),
        ("postgresql://u:a,b@h/d", Engine.POSTGRESQL, "postgresql://u:a,b@h/d"),
        (
            "postgresql://h1,h2/d?target_session_attrs=any",
            Engine.POSTGRESQL,
            "postgresql://h1,h2/d?target_session_attrs=any",
        ),
    ],
)
def test_an_address_names_engine_and_target(url: str, engine: Engine, target: str) -> None:
    address = read_address(url)
    assert (address.engine, address.target) == (engine, target)


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("mysql://u:geheim@h/d", "mysql"),
        ("sqlite:///", "sqlite"),
        ("holdfast.db", "holdfast.db"),
        ("host=h password=geheim dbname=d", "host=h"),
        ("host=h password='geheim und lang' dbname=d", "host=h"),
    ],
)
def test_any_other_address_is_refused_with_the_forms_that_would_do(url: str, named: str) -> None:
    with pytest.raises(AddressInvalid) as refused:
        read_address(url)
    for part in (named, "sqlite:///", "postgresql://"):
        assert part in str(refused.value)
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:geheim@h/d",
        "postgresql://u:geheim@h1:1,h2:2/d",
        "postgresql://h/d?user=u&password=geheim&sslmode=require",
        "postgresql://h/d?sslpassword=geheim",
    ],
)
def test_a_password_is_not_shown(url: str) -> None:
    address = read_address(url)
    for shown in (str(address), repr(address), f"{address}"):
        assert "geheim" not in shown
        assert "***" in shown
        assert shown.startswith("postgresql://")
    assert "geheim" in address.target


def test_the_environment_names_the_database_when_nobody_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, "postgresql://h/d")
    assert read_address().engine is Engine.POSTGRESQL
    assert read_address("sqlite://").engine is Engine.SQLITE
    monkeypatch.delenv(ENVIRONMENT_VARIABLE)
    assert str(read_address()) == DEFAULT_ADDRESS


def test_the_folder_of_the_file_is_made(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path}/some/where/holdfast.db")
    store.migrate()
    store.close()
    assert (tmp_path / "some" / "where" / "holdfast.db").exists()


@pytest.mark.parametrize(("said", "pooled"), [("", None), ("?pooled=1", True), ("?a=b&pooled=false", False)])
def test_an_address_may_say_whether_a_pooler_answers(said: str, pooled: bool | None) -> None:
    address = read_address(f"postgresql://u@h/d{said}")
    assert address.pooled is pooled
    assert read_address(str(address)) == address


def test_anything_else_that_is_said_of_a_pooler_is_refused() -> None:
    with pytest.raises(AddressInvalid, match="pooled=1"):
        read_address("postgresql://u@h/d?pooled=perhaps")


@pytest.mark.parametrize("said", ["0", "-1", "soon", "inf", "nan"])
def test_a_limit_that_is_not_a_time_is_refused(said: str) -> None:
    with pytest.raises(AddressInvalid, match="call_timeout_s"):
        read_address(f"postgresql://u@h/d?call_timeout_s={said}")


def test_the_time_limit_of_calls_is_told_with_the_address() -> None:
    address = read_address("postgresql://u@h/d?call_timeout_s=2.5")
    assert (address.call_timeout_s, read_address(str(address))) == (2.5, address)
