"""A secret shows itself to nobody who does not ask."""

from __future__ import annotations

import copy
import json
import logging
import pickle
from dataclasses import asdict, dataclass

import pytest

from holdfast.base import MASK, Private, Secret, SecretLeak, canonical, digest, encode, plain

VALUE = "hunter2-hunter2"
SECRET = Secret(VALUE)


@dataclass(frozen=True)
class Login:
    user: str
    password: Secret


@pytest.mark.parametrize(
    "text",
    [
        repr(SECRET),
        str(SECRET),
        f"{SECRET}",
        f"{SECRET!r}",
        f"{SECRET!s:>20}",
        f"{SECRET:>20}",
        f"{SECRET:%Y}",
        "%s" % SECRET,  # noqa: UP031 - this spelling is the claim
        "%r" % SECRET,  # noqa: UP031
        "{}".format(SECRET),  # noqa: UP032
        "{0!a}".format(SECRET),  # noqa: UP030, UP032
        repr([SECRET]),
        repr({"key": SECRET}),
        repr(Login("ada", SECRET)),
        str(ValueError(SECRET)),
        json.dumps({"key": SECRET}, default=str),
    ],
)
def test_every_way_of_printing_a_secret_prints_the_mask(text: str) -> None:
    assert VALUE not in text
    assert MASK in text


@pytest.mark.parametrize(("line", "arguments"), [("%s", (SECRET,)), ("%r", (SECRET,)), ("%(k)s", ({"k": SECRET},))])
def test_a_logged_secret_is_masked(line: str, arguments: tuple[object, ...], caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("test").warning(line, *arguments)
    assert [record.getMessage() for record in caplog.records if record.name == "test"] == [MASK]


@pytest.mark.parametrize("value", [SECRET, [SECRET], {"a": {"b": SECRET}}, (SECRET,), {SECRET}, Login("ada", SECRET)])
@pytest.mark.parametrize("write", [encode, canonical, digest])
def test_json_refuses_a_secret_at_any_depth(value: object, write: object) -> None:
    with pytest.raises(SecretLeak, match="refuses to be serialised"):
        write(value)  # type: ignore[operator]


def test_the_standard_json_module_refuses_a_secret() -> None:
    with pytest.raises(TypeError):
        json.dumps(SECRET)
    with pytest.raises(TypeError):
        json.dumps({SECRET: 1})


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("value", [SECRET, [SECRET], Login("ada", SECRET), Private(SECRET)])
def test_a_secret_cannot_be_pickled(value: object, protocol: int) -> None:
    with pytest.raises(SecretLeak):
        pickle.dumps(value, protocol)


def test_a_secret_gives_no_state_to_whoever_serialises_by_hand() -> None:
    with pytest.raises(SecretLeak):
        SECRET.__getstate__()
    with pytest.raises(TypeError):
        vars(SECRET)


@pytest.mark.parametrize(
    "copied", [copy.copy(SECRET), copy.deepcopy([SECRET])[0], asdict(Login("a", SECRET))["password"]]
)
def test_a_copy_of_a_secret_is_a_secret(copied: object) -> None:
    assert copied is SECRET


def test_plain_masks_secrets_wherever_they_stand() -> None:
    assert plain({"a": [SECRET, {"b": (SECRET,)}], "login": Login("ada", SECRET), SECRET: 1}) == {
        "a": [MASK, {"b": [MASK]}],
        "login": {"user": "ada", "password": MASK},
        MASK: 1,
    }


def test_a_secret_shows_itself_when_asked() -> None:
    assert SECRET.reveal() == VALUE


def test_secrets_compare_by_value_and_never_equal_their_text() -> None:
    assert Secret("a") == Secret("a")
    assert hash(Secret("a")) == hash(Secret("a"))
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert Secret("a").matches("a")
    assert not Secret("a").matches("A")


@pytest.mark.parametrize("value", ["ключ", "\ud800", "\x00"])
def test_any_text_can_be_compared(value: str) -> None:
    assert Secret(value) == Secret(value)
    assert not Secret(value).matches("key")


def test_an_empty_secret_is_false() -> None:
    assert not Secret("")
    assert Secret("0")


def test_the_complaint_about_a_leak_can_cross_processes() -> None:
    assert str(pickle.loads(pickle.dumps(SecretLeak()))) == str(SecretLeak())


def test_private_is_not_shown_by_its_own_text() -> None:
    assert "db-7" not in f"{Private('db-7')} {Private('db-7')!r} {[Private('db-7')]}"
    assert Private("db-7").value == "db-7"
    assert Private("db-7") == Private("db-7")


def test_plain_leaves_private_out_wherever_it_stands() -> None:
    @dataclass
    class Place:
        host: object
        port: int

    hidden = Private("db-7")
    assert plain({"a": hidden, "b": [hidden, 1], "c": (hidden,), "d": Place(hidden, 5), hidden: 1, "e": {hidden}}) == {
        "b": [1],
        "c": [],
        "d": {"port": 5},
        "e": [],
    }
    assert "db-7" not in str(plain(hidden))


def test_private_has_no_json_form() -> None:
    with pytest.raises(TypeError, match="Private has no JSON form"):
        encode({"a": Private(1)})
