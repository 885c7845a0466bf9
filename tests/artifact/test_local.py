"""A folder: links are not followed, nothing half-written shows, and what a dead process left behind is swept."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.artifact import Artifacts
from holdfast.artifact.naming import STAGING
from holdfast.base import REAL, World, replaced
from holdfast.catalog import Failure

SECRET = b"not an artifact"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def artifacts(root: Path) -> Artifacts:
    return Artifacts.open(str(root))


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "file").write_bytes(SECRET)
    return folder


OPERATIONS: dict[str, Callable[[Artifacts, str], object]] = {
    "put": lambda artifacts, name: artifacts.put(name, b"content"),
    "get": lambda artifacts, name: artifacts.get(name),
    "head": lambda artifacts, name: artifacts.head(name),
    "exists": lambda artifacts, name: artifacts.exists(name),
    "delete": lambda artifacts, name: artifacts.delete(name),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_link_in_the_middle_of_a_name_is_not_followed(
    artifacts: Artifacts, root: Path, outside: Path, operation: str
) -> None:
    (root / "inner").mkdir()
    (root / "inner" / "link").symlink_to(outside)
    with pytest.raises(Failure) as refused:
        OPERATIONS[operation](artifacts, "inner/link/file")
    assert (refused.value.code, refused.value.details["reason"]) == ("ARTIFACT_NAME_INVALID", "link")
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == {"file": SECRET}


@pytest.mark.parametrize("target", ["file", "missing"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_link_at_the_end_of_a_name_is_not_followed(
    artifacts: Artifacts, root: Path, outside: Path, operation: str, target: str
) -> None:
    (root / "link").symlink_to(outside / target)
    with pytest.raises(Failure) as refused:
        OPERATIONS[operation](artifacts, "link")
    assert (refused.value.code, refused.value.details["reason"]) == ("ARTIFACT_NAME_INVALID", "link")
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == {"file": SECRET}
    assert (root / "link").is_symlink()


def test_a_link_in_place_of_the_staging_folder_is_not_followed(artifacts: Artifacts, root: Path, outside: Path) -> None:
    (root / STAGING).symlink_to(outside)
    with pytest.raises(Failure, match="ARTIFACT_NAME_INVALID"):
        artifacts.put("name", b"content")
    assert [path.name for path in outside.iterdir()] == ["file"]


def test_links_pipes_and_strangers_are_not_listed(artifacts: Artifacts, root: Path, outside: Path) -> None:
    artifacts.put("a/1", b"content")
    (root / "a" / "link").symlink_to(outside / "file")
    (root / "folder-link").symlink_to(outside)
    os.mkfifo(root / "a" / "pipe")
    (root / " not a name").write_bytes(b"")
    assert [entry.name for entry in artifacts.list()] == ["a/1"]
    assert list(artifacts.list("folder-link")) == []


def test_a_pipe_is_no_artifact_and_nobody_waits_for_it(artifacts: Artifacts, root: Path) -> None:
    os.mkfifo(root / "pipe")
    with pytest.raises(Failure, match="ARTIFACT_NOT_FOUND"):
        artifacts.get("pipe")


def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "root").symlink_to(tmp_path / "disk")
    Artifacts.open(str(tmp_path / "root")).put("name", b"content")
    assert (tmp_path / "disk" / "name").read_bytes() == b"content"


@pytest.mark.parametrize(("first", "second"), [("a", "a/b"), ("a/b", "a")])
def test_a_name_cannot_be_file_and_folder_at_once(artifacts: Artifacts, first: str, second: str) -> None:
    artifacts.put(first, b"content")
    with pytest.raises(Failure) as refused:
        artifacts.put(second, b"content")
    assert (refused.value.code, refused.value.details["name"]) == ("ARTIFACT_CONFLICT", second)
    assert artifacts.get(first) == b"content"
    assert not artifacts.exists(second)


def test_names_are_listed_in_the_order_of_an_object_store(artifacts: Artifacts) -> None:
    names = ["a b", "a-1", "a.b", "a/1", "a/b/1", "a0", "b", "é", "日"]
    for name in reversed(names):
        artifacts.put(name, b"")
    assert [entry.name for entry in artifacts.list()] == names == sorted(names)


def test_a_folder_that_became_empty_is_removed(artifacts: Artifacts, root: Path) -> None:
    artifacts.put("a/b/c", b"content")
    artifacts.put("a/d", b"content")
    artifacts.delete("a/b/c")
    assert sorted(path.name for path in (root / "a").iterdir()) == ["d"]


def test_putting_and_deleting_in_one_folder_at_once_loses_nothing(artifacts: Artifacts) -> None:
    def churn(number: int) -> None:
        for _ in range(60):
            assert artifacts.put(f"shared/folder/{number}", b"content").created
            artifacts.delete(f"shared/folder/{number}")
        artifacts.put(f"shared/folder/{number}", b"content")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(churn, range(4)))
    assert {entry.name for entry in artifacts.list()} == {f"shared/folder/{number}" for number in range(4)}


def test_a_file_url_and_a_plain_folder_are_the_same_place(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    Artifacts.open(str(folder)).put("name", b"content")
    assert Artifacts.open(f"file://{tmp_path}/with%20space").get("name") == b"content"


def open_below(root: Path) -> list[str]:
    """What this process has open in the folder; other tests' threads may open and close what they like elsewhere."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # closed while we looked
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return sorted(path for path in found if path.startswith(str(root)))


def test_an_open_stream_that_is_dropped_is_closed_by_its_block(artifacts: Artifacts, root: Path) -> None:
    artifacts.put("name", b"content")
    before = open_below(root)
    for _ in range(5):
        with artifacts.open_stream("name"):
            pass
        artifacts.head("name")
        list(artifacts.list())
    assert open_below(root) == before


def test_a_root_that_cannot_be_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Failure) as refused:
        Artifacts.open(str(tmp_path / "file"))
    assert (refused.value.code, refused.value.retryable) == ("STORAGE_REFUSED", False)


HALF_A_PUT = """
import sys
from holdfast.artifact import Artifacts

def pieces():
    for _ in range(30):
        yield bytes(262_144)
    print("half", flush=True)
    sys.stdin.read()

Artifacts.open(sys.argv[1]).put("killed", pieces())
"""


@pytest.fixture
def half_a_put(url: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has written half of an artifact and waits."""
    process = subprocess.Popen([sys.executable, "-c", HALF_A_PUT, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"half\n"
    with process:
        yield process
        process.kill()


@pytest.mark.parametrize("url", ["folder", "s3", "gcs"], indirect=True)
def test_a_process_killed_in_the_middle_of_a_put_leaves_nothing_visible(
    half_a_put: subprocess.Popen[bytes], url: str
) -> None:
    artifacts = Artifacts.open(url)
    assert not artifacts.exists("killed")
    half_a_put.kill()
    half_a_put.wait()
    assert not artifacts.exists("killed")
    assert list(artifacts.list()) == []
    assert artifacts.put("killed", b"whole").created


@pytest.mark.parametrize("url", ["folder"], indirect=True)
def test_a_sweep_takes_what_the_dead_left_and_spares_the_living(half_a_put: subprocess.Popen[bytes], url: str) -> None:
    artifacts = Artifacts.open(url)
    later = World(wall_us=lambda: REAL.wall_us() + 2 * 86_400_000_000)
    with replaced(later):
        assert artifacts.sweep() == 0, "its writer lives"
    half_a_put.kill()
    half_a_put.wait()
    assert artifacts.sweep() == 0, "it is not old yet"
    with replaced(later):
        assert artifacts.sweep() == 1
    assert list((Path(url) / STAGING).iterdir()) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = shutil.which("mount")
    options = ("-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder))
    mounted = mount is not None and subprocess.run([mount, *options], capture_output=True, check=False).returncode == 0
    if not mounted:
        pytest.skip("NOT TESTED: a full disk. Mounting a small tmpfs needs root, or CAP_SYS_ADMIN.")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_told_as_such_and_nothing_is_left(small_disk: Path) -> None:
    artifacts = Artifacts.open(str(small_disk))
    artifacts.put("before", bytes(500_000))
    with pytest.raises(Failure) as full:
        artifacts.put("too-much", (bytes(100_000) for _ in range(30)))
    assert (full.value.code, full.value.status, full.value.retryable) == ("STORAGE_FULL", 507, True)
    assert [entry.name for entry in artifacts.list()] == ["before"]
    assert list((small_disk / STAGING).iterdir()) == []
    assert artifacts.put("fits", bytes(500_000)).created
    assert artifacts.get("before") == bytes(500_000)


def test_files_are_0600_in_0700_folders_whatever_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Artifacts.open(str(tmp_path / "kept")).put("papers/one.pdf", b"%PDF")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "kept").rglob("*") if path.is_file()}
    folders = {path.stat().st_mode & 0o777 for path in [tmp_path / "kept", tmp_path / "kept" / "papers"]}
    assert (modes, folders) == ({"one.pdf": 0o600}, {0o700})
