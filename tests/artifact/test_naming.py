"""No name leads out of the root, and the same text is the same place everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.artifact import Artifacts, checked_name
from holdfast.artifact.naming import NAME_BYTES_MAX, PART_BYTES_MAX
from holdfast.catalog import Failure

REFUSED = {
    "": "empty_part",
    "/": "empty_part",
    "/etc/passwd": "empty_part",
    "a//b": "empty_part",
    "a/": "empty_part",
    ".": "dots",
    "..": "dots",
    "...": "dots",
    "../a": "dots",
    "a/../../b": "dots",
    "a/./b": "dots",
    "a/..": "dots",
    "a\\b": "character",
    "..\\..\\windows": "character",
    "a\x00b": "character",
    "a\nb": "character",
    "a\x7fb": "character",
    "a\x85b": "character",
    "a\u200bb": "character",  # a space that takes no room
    "a\u202eb": "character",  # turns the reading direction around
    "a\u2028b": "character",
    "\ufeffa": "character",
    "\ud800": "character",
    "a\ue000": "character",
    "．．/a": "dots",
    "a/．．": "dots",
    "․․/a": "dots",  # one-dot leaders
    "…": "dots",  # folds to three
    "a／b": "disguised",
    "a／..／b": "dots",
    "a＼b": "character",
    " a": "space",
    "a ": "space",
    "a / b": "space",
    "a\u00a0": "space",
    ".holdfast-staging/a": "reserved",
    ".HOLDFAST-staging": "reserved",
    "ａ" * (PART_BYTES_MAX // 3 + 1): "too_long",
    "x" * (PART_BYTES_MAX + 1): "too_long",
    "/".join("x" * (NAME_BYTES_MAX // 2 + 1)): "too_long",
    "x" * 1_000_000: "too_long",
}


@pytest.mark.parametrize(("name", "reason"), REFUSED.items(), ids=lambda text: ascii(text)[:40])
def test_a_name_that_could_lead_elsewhere_is_refused(name: str, reason: str) -> None:
    with pytest.raises(Failure) as refused:
        checked_name(name)
    assert (refused.value.code, refused.value.status) == ("ARTIFACT_NAME_INVALID", 400)
    assert refused.value.details["reason"] == reason


def test_what_is_no_text_is_no_name() -> None:
    with pytest.raises(Failure, match="ARTIFACT_NAME_INVALID"):
        checked_name(b"name")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    ["a", "a/b", ".hidden", "a..b", "..a", "a b", "é", "日本（終）", "½", "x" * PART_BYTES_MAX, "-rf", "~", "a:b"],
)
def test_an_ordinary_name_is_taken(name: str) -> None:
    assert checked_name(name) == name


@pytest.mark.parametrize("url", ["memory"], indirect=True)
@pytest.mark.parametrize("operation", ["put", "get", "open_stream", "head", "exists", "delete", "measure"])
@pytest.mark.parametrize("name", ["../escaped", "/escaped", "a\\..\\b", "a\x00"], ids=ascii)
def test_every_operation_refuses_a_bad_name(artifacts: Artifacts, operation: str, name: str) -> None:
    with pytest.raises(Failure) as refused:
        getattr(artifacts, operation)(name, *([b"content"] if operation == "put" else []))
    assert refused.value.code == "ARTIFACT_NAME_INVALID"


@pytest.mark.parametrize("url", ["memory"], indirect=True)
@pytest.mark.parametrize("prefix", ["..", "../a", "/", "a//b"])
def test_a_bad_prefix_is_refused(artifacts: Artifacts, prefix: str) -> None:
    with pytest.raises(Failure, match="ARTIFACT_NAME_INVALID"):
        artifacts.page(prefix)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("outside")


PARTS = st.sampled_from(["..", ".", "/", "\\", "a", "．", "／", "…", "\x00", " ", "e\u0301", "~", "%2e", "-"])


@given(st.one_of(st.text(max_size=30), st.lists(PARTS, max_size=8).map("".join)))
@settings(max_examples=200, deadline=None)
def test_whatever_the_name_nothing_is_written_beside_the_root(folder: Path, name: str) -> None:
    artifacts = Artifacts.open(str(folder / "root"))
    try:
        stored = artifacts.put(name, b"content")
    except Failure as refused:
        # A name may be refused, and two names may want to be file and folder at once.
        assert refused.code in {"ARTIFACT_NAME_INVALID", "ARTIFACT_CONFLICT"}  # noqa: PT017 - both ways are fine
    else:
        assert artifacts.get(name) == b"content"
        assert checked_name(stored.name) == stored.name
        assert stored.name in {entry.name for entry in artifacts.list()}
        artifacts.delete(name)
    assert [path.name for path in folder.iterdir()] == ["root"]
