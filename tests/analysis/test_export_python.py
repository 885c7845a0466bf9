"""The Python error class: run by itself, on what every catalog writes and on what nobody should."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from holdfast.analysis import entries, to_python
from holdfast.catalog import Catalog
from holdfast.catalog.dialect import Dialect

from .export_samples import CORES, bank, rendered, retried, shop, strange


def loaded(catalogs: list[Catalog]) -> ModuleType:
    module = ModuleType("errors")
    exec(compile(to_python(entries(catalogs)), "errors.py", "exec"), module.__dict__)
    return module


@pytest.fixture(scope="module")
def catalogs() -> list[Catalog]:
    return [*CORES, shop(), bank()]


@pytest.fixture(scope="module")
def errors(catalogs: list[Catalog]) -> ModuleType:
    return loaded(catalogs)


def read(errors: ModuleType, sample: dict[str, Any], *, catalog: str) -> dict[str, Any]:
    error = errors.ApiError.parse(sample["status"], sample["headers"], sample["body"], catalog=catalog)
    return {name: getattr(error, name) for name in sample["expected"]}


def test_every_fault_is_read_in_every_dialect_as_its_catalog_means_it(
    errors: ModuleType, catalogs: list[Catalog]
) -> None:
    samples = list(rendered(catalogs))
    assert len(samples) == 4 * sum(len(catalog) for catalog in catalogs)
    for sample in samples:
        assert read(errors, sample, catalog=sample["catalog"]) == sample["expected"]


def test_without_a_catalog_nothing_is_retried_that_one_of_them_does_not(
    errors: ModuleType, catalogs: list[Catalog]
) -> None:
    rules: dict[tuple[str, int], set[bool]] = {}
    for catalog in catalogs:
        for fault in catalog:
            rules.setdefault((fault.code, fault.status), set()).add(retried(fault))
    for sample in rendered(catalogs):
        found = read(errors, sample, catalog="")["retryable"]
        assert found == all(rules[sample["expected"]["code"], sample["status"]]), sample


def test_what_nobody_declared_is_read_as_holdfast_reads_it(errors: ModuleType, catalogs: list[Catalog]) -> None:
    for sample in strange(catalogs[0]):
        assert read(errors, sample, catalog=catalogs[0].name) == sample["expected"], sample


@pytest.mark.parametrize("body", [b"\xff\xfe\xfd", b"[" * 100_000, "9" * 5_000, b" " * 2_000_000, 7, None])
def test_whatever_arrives_is_an_error_of_ours(errors: ModuleType, body: Any) -> None:
    error = errors.ApiError.parse(503, [("Retry-After", "4")], body)
    assert (error.code, error.retryable, error.retry_after_s, error.dialect) == ("SERVICE_UNAVAILABLE", True, 4.0, None)


def test_an_error_can_be_raised_and_says_what_it_is(errors: ModuleType) -> None:
    error = errors.ApiError.parse(404, {}, {"error": {"code": "NOT_FOUND", "message": "No such thing."}})
    assert isinstance(error, Exception)
    assert str(error) == "NOT_FOUND: No such thing."
    assert error.known
    assert not errors.ApiError("ELSE", status=500, retryable=False).known


def test_the_module_needs_nothing_but_the_standard_library(catalogs: list[Catalog], tmp_path: Path) -> None:
    source = to_python(entries(catalogs))
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name).split(".")[0]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert imported <= sys.stdlib_module_names
    (tmp_path / "errors.py").write_text(source)
    program = "import errors; print(errors.ApiError.parse(410, {}, b'{}').code)"
    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {program}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.stdout, ended.stderr) == ("GONE\n", "")


@pytest.mark.timeout(600)  # the checker reads all of the standard library first
def test_the_module_is_typed(catalogs: list[Catalog], tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="the type checker is not installed")
    (tmp_path / "errors.py").write_text(to_python(entries(catalogs)))
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir=.cache", "errors.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout


def test_the_dialects_are_those_of_the_core(errors: ModuleType) -> None:
    assert set(errors._NAMES) == set(Dialect)


def test_no_catalogs_make_a_module_too() -> None:
    assert loaded([Catalog("empty")]).ApiError.parse(500, {}, "{}").retryable
