"""Tracebacks as values: where it was raised, bounded, redacted, and readable again."""

from __future__ import annotations

import json
import logging

import pytest

from holdfast.base import Limits, World, bus, replaced
from holdfast.base.tracebacks import log_exception, passes_own_code, read_traceback, stored_traceback, traceback_text

HIDDEN = "Zq7xK2mN9pR4tV6w"


def caught(function: object, *given: object) -> BaseException:
    try:
        function(*given)  # type: ignore[operator]
    except BaseException as error:
        return error
    raise AssertionError("it raised nothing")


def take(order: dict[str, int]) -> int:
    return order["total"]


def charge(order: dict[str, int]) -> None:
    try:
        take(order)
    except KeyError as missing:
        raise ValueError("no total") from missing


def parse(text: str) -> None:
    json.loads(text)


def test_it_says_file_line_function_and_source_of_every_call() -> None:
    read = read_traceback(caught(charge, {}))
    raised, cause = read.chain
    assert (raised.type, raised.message, raised.link) == ("ValueError", "no total", "")
    assert (cause.type, cause.message, cause.link) == ("KeyError", "'total'", "cause")
    last = cause.frames[-1]
    assert last.file.endswith("test_tracebacks.py")
    assert (last.function, last.source, last.own) == ("take", 'return order["total"]', True)
    assert last.line == take.__code__.co_firstlineno + 1


def test_the_place_is_the_innermost_call_of_the_users_own_code() -> None:
    read = read_traceback(caught(parse, "{"))
    assert read.place == f"{__name__}:parse"
    assert read.source == "json.loads(text)"
    own = {frame.function: frame.own for frame in read.chain[0].frames}
    assert own["parse"]
    assert not own["loads"]
    assert next(frame.file for frame in read.chain[0].frames if frame.function == "loads").endswith("json/__init__.py")


def test_code_of_ones_own_that_is_installed_among_the_libraries_is_known_by_its_package() -> None:
    code = compile("def work():\n    raise KeyError('x')\n", "/opt/venv/site-packages/shop/jobs.py", "exec")
    names: dict[str, object] = {"__name__": "shop.jobs"}
    exec(code, names)
    error = caught(names["work"])
    error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]  # without this very file
    assert read_traceback(error).place == ""
    assert read_traceback(error, home="shop").place == "shop.jobs:work"
    assert (passes_own_code(error), passes_own_code(error, home="shop")) == (False, True)
    assert read_traceback(error).chain[0].frames[0].file == "shop/jobs.py"


def test_what_is_stored_is_read_again_as_it_was() -> None:
    read = read_traceback(caught(charge, {}))
    assert stored_traceback(read.stored()) == read.chain
    for unreadable in (None, "", "{", "[1]", '[{"type": 1}]', "{}"):
        assert stored_traceback(unreadable) == ()


def test_the_text_is_as_python_prints_it() -> None:
    lines = str(read_traceback(caught(charge, {}))).splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "The above exception was the direct cause of the following exception:" in lines
    assert lines[-1] == "ValueError: no total"


def deep(levels: int) -> None:
    if levels:
        deep(levels - 1)
    raise RuntimeError("at the bottom")


def test_a_deep_traceback_keeps_its_beginning_and_its_end() -> None:
    (raised,) = read_traceback(caught(deep, 300)).chain
    assert len(raised.frames) == Limits().traceback_frames_max
    assert raised.left_out == 302 - len(raised.frames)
    assert raised.frames[0].function == "caught"
    assert f"… {raised.left_out} calls left out …" in traceback_text([raised])


def linked(count: int) -> None:
    error: Exception | None = None
    for number in range(count):
        try:
            raise ValueError(f"{number} " + "é" * 2_000) from error
        except ValueError as raised:
            error = raised
    assert error is not None
    raise error


@pytest.mark.parametrize("bytes_max", [300, 2_000, 16_384])
def test_however_much_there_is_it_has_its_bounds(bytes_max: int) -> None:
    with replaced(World(limits=Limits(traceback_bytes_max=bytes_max))):
        stored = read_traceback(caught(linked, 50)).stored()
        assert len(stored.encode()) <= bytes_max
        assert len(stored_traceback(stored)) <= Limits().cause_depth_max


def loop() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    raise first


def group() -> None:
    raise ExceptionGroup("several", [KeyError("a"), OSError("b")])


def test_exceptions_that_stand_in_a_ring_or_a_group_are_each_told_once() -> None:
    assert [one.message for one in read_traceback(caught(loop)).chain] == ["a", "b"]
    told = read_traceback(caught(group)).chain
    assert [(one.type, one.link) for one in told] == [
        ("ExceptionGroup", ""),
        ("KeyError", "group"),
        ("OSError", "group"),
    ]


class Rude(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def leak() -> None:
    raise ValueError(f"could not reach postgresql://ada:{HIDDEN}@db/jobs\n2026-03-01 ERROR forged\x1b[2J\ud800\0")


def test_no_secret_is_in_it_and_no_text_forges_a_line() -> None:
    read = read_traceback(caught(leak))
    assert HIDDEN not in read.stored()
    assert "\x1b" not in str(read)
    assert not any(line.startswith("2026") for line in str(read).splitlines())
    assert read.stored().encode()


def boom(password: str = "Zq7xK2mN9pR4tV6w") -> None: raise KeyError(password and "k")  # fmt: skip


def test_a_secret_in_the_source_is_masked() -> None:
    read = read_traceback(caught(boom))
    assert "raise KeyError" in read.source
    assert HIDDEN not in read.stored()


def test_an_exception_that_cannot_be_read_is_told_all_the_same() -> None:
    (raised,) = read_traceback(caught(_raise, Rude())).chain
    assert raised.message == "<its text cannot be read>"


def _raise(error: BaseException) -> None:
    raise error


class Strange(Exception):
    @property
    def __cause__(self) -> BaseException:  # type: ignore[override]
        raise RuntimeError("no")


def test_whatever_an_exception_is_made_of_it_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    log_exception("holdfast.test", "it broke", caught(_raise, Strange("x")))
    (record,) = [one for one in caplog.records if one.name == "holdfast.test"]
    assert record.getMessage() == "it broke\nStrange: its traceback cannot be read"


def test_an_exception_is_logged_once_wherever_lines_are_written(caplog: pytest.LogCaptureFixture) -> None:
    error = caught(leak)
    with caplog.at_level(logging.ERROR, logger="holdfast.test"):
        log_exception("holdfast.test", "it broke\nforged", error)
        told: list[tuple[str, object]] = []
        end = bus.listen(lambda verb, facts: told.append((verb, facts["area"])), writes_log=True)
        log_exception("holdfast.test", "it broke", error)
        end()
    (record,) = [one for one in caplog.records if one.name == "holdfast.test"]
    assert record.getMessage().splitlines()[0] == "it broke\\nforged"
    assert "in leak" in record.getMessage()
    assert HIDDEN not in record.getMessage()
    assert told == [("exception.caught", "holdfast.test")]
