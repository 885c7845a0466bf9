"""Logs: one line for each event, for machines or for people, with no secret in it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import structlog

from holdfast.base import Secret, bus
from holdfast.catalog import enriched
from holdfast.testing.instant import instant
from holdfast.watch import log_events
from holdfast.watch.log_records import LEVELS, drop_unhandled
from holdfast.watch.logs import level_of


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def logged(out: io.StringIO) -> Iterator[Any]:
    end = log_events(stream=out)
    yield lambda: [json.loads(line) for line in out.getvalue().splitlines()]
    end()


def test_a_line_holds_the_short_message_and_the_whole_reason(logged: Any) -> None:
    with instant():
        bus.tell(
            "job.failed",
            id="7",
            queue="pdf",
            code="GW_5XX",
            message="Converter service is having an issue.",
            technical="HTTP 503 from http://gateway/convert with password=hunter22 after 2.1 s",
            attempt=3,
            tenant=None,
        )
    (line,) = logged()
    assert line["timestamp"].endswith("Z")
    assert {name: value for name, value in line.items() if name != "timestamp"} == {
        "event": "job.failed",
        "level": "error",
        "id": "7",
        "queue": "pdf",
        "code": "GW_5XX",
        "message": "Converter service is having an issue.",
        "technical": "HTTP 503 from http://gateway/convert with password=*** after 2.1 s",
        "attempt": 3,
    }


def test_what_an_outage_tells_all_the_time_is_logged_once_in_ten_seconds(logged: Any) -> None:
    with instant() as time:
        for _ in range(61):
            bus.tell("worker.trouble", worker="w", code="DATABASE_CONNECTION_ERROR")
            time.advance(0.2)
        bus.tell("worker.trouble", worker="w", code="STORAGE_FULL")
        for queue in ("mail", "pdf"):
            bus.tell("worker.trouble", worker="w", code="HANDLERS_STUCK", queue=queue)
    assert [(line["code"], line.get("held_back"), line.get("queue")) for line in logged()] == [
        ("DATABASE_CONNECTION_ERROR", None, None),
        ("DATABASE_CONNECTION_ERROR", 49, None),
        ("STORAGE_FULL", None, None),
        ("HANDLERS_STUCK", None, "mail"),
        ("HANDLERS_STUCK", None, "pdf"),
    ]


def test_a_line_says_to_which_request_it_belongs(logged: Any) -> None:
    with enriched(request_id="req_1", trace_id="a" * 32, span_id="b" * 16):
        bus.tell("job.enqueued", id="7")
    (line,) = logged()
    assert (line["request_id"], line["trace_id"], line["span_id"]) == ("req_1", "a" * 32, "b" * 16)


def test_no_fact_takes_the_place_of_what_the_line_says(logged: Any) -> None:
    bus.tell("job.enqueued", event="forged", level="debug", timestamp="never")
    (line,) = logged()
    assert (line["event"], line["level"]) == ("job.enqueued", "info")
    assert (line["event_"], line["level_"], line["timestamp_"]) == ("forged", "debug", "never")


def test_nothing_is_logged_after_the_end(out: io.StringIO) -> None:
    log_events(stream=out)()
    bus.tell("job.enqueued", id="7")
    assert out.getvalue() == ""


@pytest.mark.parametrize(
    ("verb", "facts", "level"),
    [
        ("job.enqueued", {}, "info"),
        ("job.claimed", {}, "info"),
        ("job.finished", {}, "info"),
        ("job.retried", {}, "warning"),
        ("job.failed", {}, "error"),
        ("link.succeeded", {}, "debug"),
        ("link.rejected", {}, "warning"),
        ("breaker.opened", {}, "warning"),
        ("breaker.closed", {}, "info"),
        ("request.served", {"status": 200}, "info"),
        ("request.served", {"status": 401, "severity": "none"}, "info"),
        ("request.served", {"status": 409, "severity": "warning"}, "warning"),
        ("request.served", {"status": 503}, "error"),
        ("delivery.attempted", {"outcome": "delivered"}, "info"),
        ("delivery.attempted", {"outcome": "retried"}, "warning"),
        ("delivery.attempted", {"outcome": "dead"}, "error"),
        ("webhook.received", {"code": None}, "info"),
        ("webhook.received", {"code": "INVALID_SIGNATURE"}, "warning"),
        ("worker.trouble", {}, "error"),
        ("step.failed", {}, "warning"),
        ("alert.fired", {"severity": "critical"}, "error"),
        ("alert.fired", {"severity": "warning"}, "warning"),
        ("alert.fired", {}, "warning"),
        ("alert.resolved", {"severity": "critical"}, "info"),
        ("alert.trouble", {}, "error"),
        ("switch.flipped", {}, "warning"),
    ],
)
def test_each_event_has_its_level(verb: str, facts: dict[str, object], level: str) -> None:
    assert level_of(verb, facts) == level


@pytest.mark.parametrize("level", LEVELS)
def test_only_what_is_loud_enough_is_logged(out: io.StringIO, level: str) -> None:
    end = log_events(stream=out, level=level)
    for verb in ("link.succeeded", "job.enqueued", "job.retried", "job.failed"):
        bus.tell(verb)
    end()
    assert len(out.getvalue().splitlines()) == len(LEVELS) - list(LEVELS).index(level)


def test_an_unknown_level_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="loud"):
        log_events(level="loud")


def test_a_terminal_gets_text_for_people(out: io.StringIO) -> None:
    terminal = Terminal()
    end = log_events(stream=terminal)
    bus.tell("job.failed", queue="pdf", code="GW_5XX", card=Secret("4111"))
    end()
    text = terminal.getvalue()
    assert text.count("\n") == 1
    assert "job.failed" in text
    assert "GW_5XX" in text
    assert "4111" not in text
    assert not text.startswith("{")


def test_what_others_wrote_begins_no_line_of_text(out: io.StringIO) -> None:
    end = log_events(stream=out, json=False)
    bus.tell("job.failed", technical="first\nsecond\r\x1b[31mred\u2028third", **{"a\nforged": 1})
    end()
    text = out.getvalue()
    assert text.count("\n") == 1
    assert text.endswith("\n")
    assert not {"\r", "\u2028"} & set(text)
    assert "\x1b[31m" not in text


def test_structlog_stays_as_the_user_configured_it(out: io.StringIO) -> None:
    before = structlog.get_config()
    log_events(stream=out)()
    assert structlog.get_config() == before
    assert not structlog.is_configured()


# -- records of the standard logging ---------------------------------------------------------------------------------


@contextmanager
def unheard() -> Iterator[logging.Logger]:
    """A logger whose records reach no handler; those of pytest take records of loggers that exist before the test."""
    logger = logging.getLogger("holdfast.unheard")
    logger.propagate = False
    yield logger
    logger.propagate = True


def test_a_record_that_no_handler_takes_is_a_line_like_the_others(out: io.StringIO) -> None:
    end = log_events(stream=out, unhandled=True)
    with unheard() as logger:
        try:
            raise ValueError("password=hunter22")
        except ValueError:
            logger.exception("lost %d connections to postgresql://ada:hunter22@db/shop\nsecond line", 3)
    end()
    (line,) = [json.loads(line) for line in out.getvalue().splitlines()]
    assert (line["event"], line["level"], line["area"]) == ("log.written", "error", "holdfast.unheard")
    assert line["technical"] == "lost 3 connections to postgresql://ada:***@db/shop\nsecond line"
    assert line["exception"].endswith("ValueError: password=***")
    assert "hunter22" not in out.getvalue()


@pytest.mark.parametrize("level", LEVELS)
def test_records_are_logged_from_the_same_level_on(out: io.StringIO, level: str) -> None:
    before = logging.getLogger("holdfast").level, logging.lastResort
    end = log_events(stream=out, level=level, unhandled=True)
    with unheard() as logger:
        for number in (5, *LEVELS.values(), logging.CRITICAL):
            logger.log(number, "something happened")
    end()
    told = [json.loads(line)["level"] for line in out.getvalue().splitlines()]
    assert told == [*list(LEVELS)[list(LEVELS).index(level) :], "error"]
    assert (logging.getLogger("holdfast").level, logging.lastResort) == before


def test_a_program_that_has_set_up_logging_gets_its_records_itself(out: io.StringIO) -> None:
    theirs = io.StringIO()
    handler = logging.StreamHandler(theirs)
    end = log_events(stream=out, unhandled=True)
    with unheard() as logger:
        logger.addHandler(handler)
        logger.warning("theirs")
        logger.removeHandler(handler)
    end()
    assert (out.getvalue(), theirs.getvalue()) == ("", "theirs\n")


def test_a_record_that_cannot_be_written_stops_nobody(out: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    end = log_events(stream=out, unhandled=True)
    with unheard() as logger:
        logger.warning("%d files", "many")
    end()
    assert out.getvalue() == ""
    assert "--- Logging error ---" in capsys.readouterr().err


def test_records_are_dropped_where_the_log_is_off(capsys: pytest.CaptureFixture[str]) -> None:
    end = drop_unhandled()
    with unheard() as logger:
        logger.error("this is read by nobody")
    end()
    assert capsys.readouterr().err == ""
