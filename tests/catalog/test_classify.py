"""Foreign errors become failures: the look-up, the names, the catalog's own words, and what is never shown."""

from __future__ import annotations

import sqlite3
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.base import REAL, Limits, World, encode, plain, replaced
from holdfast.catalog import CORE, Catalog, Failure
from holdfast.catalog import core as c
from holdfast.catalog.classify import DEFAULT_CLASSIFIER, TYPES_REMEMBERED_MAX, Classifier
from holdfast.catalog.network import NETWORK_CODES, Wrapper

shop = Catalog("shop", extends=(CORE,))
BANK_SILENT = shop.fault("BANK_SILENT", status=503, says="The bank did not answer.", retry=True)
CARD_DECLINED = shop.fault("CARD_DECLINED", status=402, says="The card was declined.")


class BankError(Exception):
    pass


class Declined(BankError):
    pass


class DeclinedForAge(Declined):
    pass


def foreign(name: str, *bases: type[BaseException]) -> type[BaseException]:
    """A class as another package would define it."""
    module, _, short = name.rpartition(".")
    return type(short, bases or (Exception,), {"__module__": module})


def test_a_failure_is_returned_as_it_is() -> None:
    failure = BANK_SILENT(charge="c1")
    assert Classifier({Exception: CARD_DECLINED}).classify(failure) is failure
    assert failure.__cause__ is None


def test_the_exact_type_wins_over_its_base() -> None:
    classifier = Classifier({BankError: BANK_SILENT, Declined: CARD_DECLINED})
    assert classifier.classify(Declined()).code == "CARD_DECLINED"
    assert classifier.classify(BankError()).code == "BANK_SILENT"


def test_the_nearest_base_wins_and_wins_again_when_remembered() -> None:
    classifier = Classifier({Exception: BANK_SILENT, Declined: CARD_DECLINED})
    first, second = DeclinedForAge("a"), DeclinedForAge("b")
    assert classifier.classify(first).code == "CARD_DECLINED"
    again = classifier.classify(second)
    assert again.code == "CARD_DECLINED"
    assert again.__cause__ is second


def test_the_callers_table_wins_over_what_holdfast_knows_even_by_a_farther_base() -> None:
    assert Classifier({OSError: CARD_DECLINED}).classify(ConnectionRefusedError()).code == "CARD_DECLINED"


def test_an_error_nobody_knows_is_unknown_and_keeps_its_cause() -> None:
    error = BankError("odd")
    failure = DEFAULT_CLASSIFIER.classify(error)
    assert (failure.code, failure.__cause__) == ("UNKNOWN", error)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), FileNotFoundError(2, "no"), PermissionError(13)])
def test_what_is_no_network_error_is_unknown(error: BaseException) -> None:
    assert DEFAULT_CLASSIFIER.classify(error).code == "UNKNOWN"


def test_the_cause_is_shown_in_a_traceback_without_a_raise() -> None:
    failure = DEFAULT_CLASSIFIER.classify(ConnectionResetError("peer gone"))
    assert "peer gone" in "".join(traceback.format_exception(failure))


# -- readings --------------------------------------------------------------------------------------------------


def test_a_reader_looks_at_the_instance_and_none_leaves_it_to_the_next_reading() -> None:
    def read(error: BaseException) -> Failure | None:
        return CARD_DECLINED(reason=error.args[0]) if error.args else None

    classifier = Classifier({Declined: read, BankError: BANK_SILENT})
    failure = classifier.classify(Declined("age"))
    assert (failure.code, failure.details) == ("CARD_DECLINED", {"reason": "age"})
    assert classifier.classify(Declined()).code == "BANK_SILENT"
    assert Classifier({TimeoutError: read}).classify(TimeoutError()).code == "NETWORK_TIMEOUT"


def test_a_failure_in_the_table_is_a_pattern_and_every_occurrence_is_new() -> None:
    pattern = BANK_SILENT("Ask again later.", retry_after_s=9.0, bank="north")
    classifier = Classifier({BankError: pattern})
    first, second = classifier.classify(BankError()), classifier.classify(BankError())
    assert first is not second
    assert first is not pattern
    assert (first.message, first.retry_after_s, first.details) == ("Ask again later.", 9.0, {"bank": "north"})
    assert pattern.__cause__ is None


def test_a_reader_that_breaks_leaves_the_error_unknown_and_is_named_for_the_log_only() -> None:
    def broken(error: BaseException) -> Failure:
        raise AttributeError("no such part")

    error = BankError()
    failure = Classifier({BankError: broken}).classify(error)
    assert (failure.code, failure.__cause__) == ("UNKNOWN", error)
    assert failure.details["classifier"].value == "AttributeError: no such part"
    assert plain(failure.details) == {}


def test_a_failure_inside_a_wrapper_decides_and_is_not_touched() -> None:
    inner = CARD_DECLINED(card="4242")
    group = ExceptionGroup("tasks", [inner])
    failure = DEFAULT_CLASSIFIER.classify(group)
    assert (failure.code, failure.details, failure.__cause__) == ("CARD_DECLINED", {"card": "4242"}, group)
    assert inner.__cause__ is None


def test_a_group_of_several_errors_is_unknown() -> None:
    assert DEFAULT_CLASSIFIER.classify(ExceptionGroup("x", [TimeoutError(), ValueError()])).code == "UNKNOWN"


def test_wrappers_are_followed_only_so_far() -> None:
    class Around(Exception):
        pass

    def nested(layers: int) -> BaseException:
        error: BaseException = TimeoutError()
        for _ in range(layers):
            error, inner = Around(), error
            error.__cause__ = inner
        return error

    classifier = Classifier({Around: Wrapper(("__cause__",), BANK_SILENT)})
    with replaced(World(wall_us=REAL.wall_us, limits=Limits(cause_depth_max=3))):
        assert classifier.classify(nested(2)).code == "NETWORK_TIMEOUT"
        assert classifier.classify(nested(3)).code == "BANK_SILENT"


def test_a_wrapper_that_holds_itself_ends() -> None:
    class Around(Exception):
        pass

    first, second = Around(), Around()
    first.__cause__, second.__cause__ = second, first
    assert Classifier({Around: Wrapper(("__cause__",))}).classify(first).code == "UNKNOWN"


# -- names -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "defined_as"),
    [
        ("bank_sdk.errors.Declined", "bank_sdk.errors.Declined"),
        ("bank_sdk.Declined", "bank_sdk.client.errors.Declined"),
        ("bank_sdk.errors.Declined", "bank_sdk.Declined"),
    ],
)
def test_a_name_matches_the_class_where_it_is_defined_or_offered(key: str, defined_as: str) -> None:
    kind = foreign(defined_as)
    below = foreign("app.MyDeclined", kind)
    classifier = Classifier({key: CARD_DECLINED})
    assert classifier.classify(kind()).code == "CARD_DECLINED"
    assert classifier.classify(below()).code == "CARD_DECLINED"


@pytest.mark.parametrize("defined_as", ["other_sdk.Declined", "bank_sdk.refunds.Declined", "bank_sdk.errors.Refused"])
def test_a_name_does_not_match_another_package_module_or_class(defined_as: str) -> None:
    assert Classifier({"bank_sdk.errors.Declined": CARD_DECLINED}).classify(foreign(defined_as)()).code == "UNKNOWN"


def test_a_name_without_its_package_is_refused() -> None:
    with pytest.raises(ValueError, match="with its package"):
        Classifier({"Declined": CARD_DECLINED})


# -- the catalog and the remap ---------------------------------------------------------------------------------


def test_the_catalogs_words_and_rule_replace_the_cores() -> None:
    own = Catalog("own", extends=(CORE,))
    own.refine("CONNECTION_RESET", says="The line to the bank broke.")
    own.overlay({"DUPLICATE_RECORD": True, "NETWORK_TIMEOUT": False})
    classifier = Classifier(catalog=own)
    assert classifier.classify(ConnectionResetError()).message == "The line to the bank broke."
    assert classifier.classify(TimeoutError()).retryable is False
    assert classifier.classify(_unique_violation()).retryable is True
    assert DEFAULT_CLASSIFIER.classify(TimeoutError()).retryable is True


def test_a_policy_loaded_after_the_first_error_is_in_force_at_the_next() -> None:
    own = Catalog("own", extends=(CORE,))
    classifier = Classifier(catalog=own)
    assert classifier.classify(TimeoutError()).retryable is True
    own.overlay({"NETWORK_TIMEOUT": False})
    assert classifier.classify(TimeoutError()).retryable is False


def test_a_remap_replaces_a_code_wherever_it_was_read() -> None:
    classifier = Classifier(
        remap={**dict.fromkeys(NETWORK_CODES, BANK_SILENT), "UNKNOWN": CARD_DECLINED, "BANK_SILENT": c.GONE}
    )
    assert classifier.classify(ConnectionRefusedError()).fault is BANK_SILENT  # by type
    assert classifier.classify(OSError(113, "no route")).fault is BANK_SILENT  # by a reader
    assert classifier.classify(ValueError()).fault is CARD_DECLINED
    assert classifier.classify(ExceptionGroup("x", [TimeoutError()])).fault is BANK_SILENT  # through a wrapper, once


# -- what is never shown ---------------------------------------------------------------------------------------


@given(st.text(alphabet=st.characters(codec="ascii", categories=["L", "N"]), min_size=12))
def test_what_the_other_side_said_is_kept_but_never_shown(secret: str) -> None:
    carrier = foreign("httpx.HTTPStatusError")
    error = carrier(secret)
    error.status = 500  # type: ignore[attr-defined]
    for cause in (sqlite3.OperationalError(secret), error, ConnectionResetError(secret), BankError(secret)):
        failure = DEFAULT_CLASSIFIER.classify(cause)
        assert secret not in encode(plain(failure.details)) + failure.message
        assert failure.__cause__ is cause


def test_the_original_of_a_database_error_stands_in_the_details_as_private() -> None:
    failure = DEFAULT_CLASSIFIER.classify(_unique_violation())
    assert failure.details["original"].value == "IntegrityError: UNIQUE constraint failed: person.email"
    assert plain(failure.details) == {}
    assert "person" not in failure.message


def test_classes_made_while_running_do_not_fill_the_memory() -> None:
    classifier = Classifier()
    for number in range(TYPES_REMEMBERED_MAX + 10):
        assert classifier.classify(type(f"Made{number}", (TimeoutError,), {})()).code == "NETWORK_TIMEOUT"
    assert len(classifier._decided) <= TYPES_REMEMBERED_MAX


def _unique_violation() -> sqlite3.Error:
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE person (email TEXT UNIQUE)")
        database.execute("INSERT INTO person VALUES ('a@example.com')")
        with pytest.raises(sqlite3.IntegrityError) as raised:
            database.execute("INSERT INTO person VALUES ('a@example.com')")
    database.close()
    return raised.value
