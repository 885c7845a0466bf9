"""What is promised on every storage alike."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from holdfast.artifact import Artifacts, Stored
from holdfast.base import REAL, World, replaced
from holdfast.catalog import Failure

NAME = "reports/run-7/step-2.json"
SMALL = b'{"summary": "fine"}'
LARGE = bytes(range(256)) * 4_096 * 6  # six MB: more than one put takes, so it is staged and copied


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def code_of(failed: pytest.ExceptionInfo[Failure]) -> str:
    return failed.value.code


@pytest.mark.parametrize("content", [b"", SMALL, LARGE], ids=["empty", "small", "large"])
def test_what_was_put_is_what_is_got(artifacts: Artifacts, content: bytes) -> None:
    assert artifacts.put(NAME, content) == Stored(NAME, sha256(content), len(content), created=True)
    assert artifacts.get(NAME) == content
    head = artifacts.head(NAME)
    assert (head.name, head.bytes) == (NAME, len(content))
    assert abs(head.modified_us - REAL.wall_us()) < 60_000_000


@pytest.mark.parametrize("content", [b"", SMALL, LARGE], ids=["empty", "small", "large"])
def test_the_same_content_again_is_a_success_that_created_nothing(artifacts: Artifacts, content: bytes) -> None:
    first = artifacts.put(NAME, content)
    again = artifacts.put(NAME, iter([content]))
    assert (first.created, again.created) == (True, False)
    assert (again.sha256, again.bytes) == (first.sha256, first.bytes)


@pytest.mark.parametrize(
    ("first", "second"),
    [(SMALL, SMALL[::-1]), (LARGE, LARGE[::-1]), (SMALL, LARGE), (LARGE, b"")],
    ids=["same size", "large", "large over small", "empty over large"],
)
def test_other_content_is_a_conflict_and_changes_nothing(artifacts: Artifacts, first: bytes, second: bytes) -> None:
    artifacts.put(NAME, first)
    with pytest.raises(Failure) as refused:
        artifacts.put(NAME, second)
    assert (code_of(refused), refused.value.status, refused.value.retryable) == ("ARTIFACT_CONFLICT", 409, False)
    assert artifacts.get(NAME) == first


def raced(artifacts: Artifacts, contents: list[bytes]) -> list[Stored | str]:
    together = Barrier(len(contents))

    def put(content: bytes) -> Stored | str:
        together.wait()
        try:
            return artifacts.put(NAME, content)
        except Failure as failure:
            return failure.code

    with ThreadPoolExecutor(len(contents)) as pool:
        return list(pool.map(put, contents))


def test_of_twenty_who_put_the_same_one_creates_it_and_all_succeed(artifacts: Artifacts) -> None:
    outcomes = raced(artifacts, [SMALL] * 20)
    assert sorted(isinstance(outcome, Stored) and outcome.created for outcome in outcomes) == [False] * 19 + [True]
    assert {isinstance(outcome, Stored) and outcome.sha256 for outcome in outcomes} == {sha256(SMALL)}
    assert artifacts.get(NAME) == SMALL


def test_of_six_who_put_different_things_one_wins_and_the_rest_are_told(artifacts: Artifacts) -> None:
    outcomes = raced(artifacts, [b"content of %d" % number for number in range(6)])
    (winner,) = [outcome for outcome in outcomes if isinstance(outcome, Stored)]
    assert outcomes.count("ARTIFACT_CONFLICT") == 5
    assert winner.created
    assert sha256(artifacts.get(NAME)) == winner.sha256


def test_a_race_of_large_contents_has_one_winner_too(artifacts: Artifacts) -> None:
    outcomes = raced(artifacts, [LARGE, LARGE[::-1], LARGE, LARGE[1:]])
    winners = [outcome for outcome in outcomes if isinstance(outcome, Stored)]
    assert sum(winner.created for winner in winners) == 1
    assert {winner.sha256 for winner in winners} == {sha256(artifacts.get(NAME))}
    assert len(outcomes) - len(winners) == outcomes.count("ARTIFACT_CONFLICT") >= 1


def test_files_paths_buffers_and_pieces_can_be_put(artifacts: Artifacts, tmp_path: Path) -> None:
    file = tmp_path / "source"
    file.write_bytes(SMALL)
    contents = {
        "path": file,
        "file": io.BytesIO(SMALL),
        "bytearray": bytearray(SMALL),
        "memoryview": memoryview(SMALL),
        "pieces": [SMALL[:5], b"", SMALL[5:]],
        "generator": (SMALL[place : place + 1] for place in range(len(SMALL))),
    }
    assert {artifacts.put(name, content).sha256 for name, content in contents.items()} == {sha256(SMALL)}


def test_a_buffer_that_its_owner_uses_again_is_stored_as_it_was(artifacts: Artifacts) -> None:
    def reused() -> Iterator[bytearray]:
        buffer = bytearray(1_000_000)
        for number in range(7):
            buffer[:] = bytes([number]) * 1_000_000
            yield buffer

    stored = artifacts.put(NAME, reused())  # type: ignore[arg-type]  # a bytearray will do
    assert artifacts.measure(NAME).sha256 == stored.sha256


@pytest.mark.parametrize("content", ["text", 5, None, ["text"], [5]], ids=repr)
def test_what_is_no_content_is_refused_and_leaves_nothing(artifacts: Artifacts, content: object) -> None:
    with pytest.raises(TypeError):
        artifacts.put(NAME, content)  # type: ignore[arg-type]
    assert not artifacts.exists(NAME)


@pytest.mark.parametrize("pieces", [2, 100], ids=["small", "large"])
def test_a_stream_is_cut_at_the_limit_and_leaves_nothing(artifacts: Artifacts, pieces: int) -> None:
    asked = 0

    def endless() -> Iterator[bytes]:
        nonlocal asked
        while True:
            asked += 1
            yield bytes(100_000)

    with pytest.raises(Failure) as refused:
        artifacts.put(NAME, endless(), bytes_max=pieces * 100_000)
    assert (code_of(refused), refused.value.status) == ("ARTIFACT_TOO_LARGE", 413)
    assert refused.value.details["bytes_max"] == pieces * 100_000
    assert asked == pieces + 1
    assert_nothing_is_left(artifacts)


def test_content_of_just_the_limit_is_taken(url: str) -> None:
    artifacts = Artifacts.open(url, bytes_max=100)
    assert artifacts.put("fits", bytes(100)).created
    with pytest.raises(Failure) as refused:
        artifacts.put("does-not", bytes(101), bytes_max=1_000)  # a put cannot ask for more than the storage allows
    assert code_of(refused) == "ARTIFACT_TOO_LARGE"


@pytest.mark.parametrize("before", [10, 6_000_000], ids=["small", "large"])
def test_a_source_that_fails_is_heard_and_leaves_nothing(artifacts: Artifacts, before: int) -> None:
    def broken() -> Iterator[bytes]:
        yield bytes(before)
        raise OSError("the caller's own disk")

    with pytest.raises(OSError, match="the caller's own disk"):
        artifacts.put(NAME, broken())
    assert_nothing_is_left(artifacts)


def assert_nothing_is_left(artifacts: Artifacts) -> None:
    assert not artifacts.exists(NAME)
    assert list(artifacts.list()) == []
    assert artifacts.sweep(older_than_s=-3_600) == 0, "nothing is left in the staging area"


@pytest.mark.parametrize("operation", ["get", "head", "open_stream", "measure"])
def test_what_is_not_there_is_not_found(artifacts: Artifacts, operation: str) -> None:
    with pytest.raises(Failure) as missing:
        getattr(artifacts, operation)(NAME)
    assert (code_of(missing), missing.value.status) == ("ARTIFACT_NOT_FOUND", 404)
    assert missing.value.details["name"] == NAME


def test_a_deleted_artifact_is_gone_and_its_name_is_free_again(artifacts: Artifacts) -> None:
    artifacts.put(NAME, SMALL)
    artifacts.delete(NAME)
    artifacts.delete(NAME)  # no error: it is as it should be
    assert not artifacts.exists(NAME)
    assert artifacts.put(NAME, b"other").created


def test_content_streams_out_in_pieces_with_its_hash(artifacts: Artifacts) -> None:
    artifacts.put(NAME, LARGE)
    with artifacts.open_stream(NAME, sha256=sha256(LARGE).upper()) as stream:
        pieces = list(stream)
        assert (stream.sha256, stream.bytes, stream.entry.bytes) == (sha256(LARGE), len(LARGE), len(LARGE))
    assert b"".join(pieces) == LARGE
    assert len(pieces) > 1
    copy = io.BytesIO()
    with artifacts.open_stream(NAME) as stream:
        assert stream.copy_to(copy) == len(LARGE)
    assert copy.getvalue() == LARGE


def test_an_artifact_that_is_not_what_was_expected_is_damaged(artifacts: Artifacts) -> None:
    artifacts.put(NAME, SMALL)
    with pytest.raises(Failure) as damaged:
        artifacts.get(NAME, sha256=sha256(b"other"))
    assert code_of(damaged) == "ARTIFACT_DAMAGED"


def test_more_than_fits_into_memory_is_not_got_whole(artifacts: Artifacts) -> None:
    artifacts.put(NAME, SMALL)
    with pytest.raises(Failure) as refused:
        artifacts.get(NAME, bytes_max=len(SMALL) - 1)
    assert code_of(refused) == "ARTIFACT_TOO_LARGE"
    assert artifacts.get(NAME, bytes_max=len(SMALL)) == SMALL


def test_measuring_tells_size_and_hash(artifacts: Artifacts) -> None:
    artifacts.put(NAME, SMALL)
    assert artifacts.measure(NAME) == Stored(NAME, sha256(SMALL), len(SMALL), created=False)


def test_a_prefix_is_whole_parts_of_a_name(artifacts: Artifacts) -> None:
    for name in ("a/1", "a/b/2", "ab/3", "c"):
        artifacts.put(name, SMALL)
    assert {entry.name for entry in artifacts.list()} == {"a/1", "a/b/2", "ab/3", "c"}
    assert {entry.name for entry in artifacts.list("a")} == {entry.name for entry in artifacts.list("a/")}
    assert {entry.name for entry in artifacts.list("a")} == {"a/1", "a/b/2"}
    assert list(artifacts.list("nothing")) == []


@pytest.mark.parametrize("count", [1, 3, 7])
def test_pages_hold_each_artifact_once(artifacts: Artifacts, count: int) -> None:
    names = {"a-1", "a/1", "a/2", "a/z/1", "b", "c/é", "c/日本"}
    for name in names:
        artifacts.put(name, SMALL)
    seen, after, pages = [], None, 0
    while True:
        page = artifacts.page(after=after, count=count)
        pages += 1
        assert len(page.entries) <= count
        seen += [entry.name for entry in page.entries]
        after = page.after
        if after is None:
            break
    assert (sorted(seen), pages) == (sorted(names), -(-len(names) // count))


@pytest.mark.parametrize("name", ["a b.txt", "100%/a%2Fb", "a#1", "a?b=c&d", "a+b", "[x]{y}~", "Straße/日本（終）.pdf"])
def test_a_name_comes_back_as_it_was_given(artifacts: Artifacts, name: str) -> None:
    assert artifacts.put(name, SMALL).name == name
    assert [entry.name for entry in artifacts.list()] == [name]
    assert artifacts.get(name) == SMALL


def test_two_spellings_of_one_letter_are_one_name(artifacts: Artifacts) -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    assert artifacts.put(decomposed, SMALL).name == composed
    assert artifacts.put(composed, SMALL).created is False


def test_retention_removes_what_is_old_below_its_prefix(artifacts: Artifacts) -> None:
    for name in ("uploads/1", "uploads/2", "kept/1"):
        artifacts.put(name, SMALL)
    assert artifacts.prune("uploads", older_than_s=3_600) == 0
    with replaced(World(wall_us=lambda: REAL.wall_us() + 7_200_000_000)):
        assert artifacts.prune("uploads", older_than_s=3_600, count=1) == 1
        assert artifacts.prune("uploads", older_than_s=3_600) == 1
    assert [entry.name for entry in artifacts.list()] == ["kept/1"]
