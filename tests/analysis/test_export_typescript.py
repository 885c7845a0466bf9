"""The TypeScript error class: compiled by the strict compiler, then run by Node on the same bodies as the Python one.

Node has to be there; the compiler is taken from the path, or installed once into `build/` from the package registry.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast.analysis import entries, to_typescript
from holdfast.catalog import CORE, Catalog

from .export_samples import CORES, bank, rendered, shop, strange

COMPILER = "typescript@5.9.3"
INSTALL_S_MAX = 60
COMPILE_S_MAX = 300
OPTIONS = (
    *("--strict", "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes", "--noUnusedLocals"),
    *("--noImplicitReturns", "--noUnusedParameters", "--target", "ES2020", "--lib", "ES2020"),
    *("--module", "ES2020", "--outDir", "out"),
)
PROGRAM = """
import { readFileSync } from "node:fs";
import { ApiError, isCode, parse } from "./out/errors.js";
const cases = JSON.parse(readFileSync("cases.json", "utf-8"));
const read = ({ status, headers, body, catalog }) => {
  const error = parse(status, headers, body, catalog === null ? {} : { catalog });
  if (!(error instanceof ApiError) || !(error instanceof Error)) throw new Error("no ApiError");
  return { code: error.code, retryable: error.retryable, retry_after_s: error.retryAfterS, dialect: error.dialect,
           message: error.message, request_id: error.requestId };
};
const forms = [{ "Retry-After": "4" }, [["RETRY-AFTER", "4"]], new Headers({ "retry-after": "4" }),
               { "retry-after": ["4", "5"] }].map((headers) => parse(503, headers, "").retryAfterS);
const codes = ["GONE", "toString", "ELSE"].map(isCode);
console.log(JSON.stringify({ read: cases.map(read), forms, codes }));
"""
USE = """
import { ApiError, type Code, isCode } from "./errors.js";
const error: ApiError = ApiError.parse(503, { "retry-after": "3" }, "{}");
const wait: number = error.retryable ? (error.retryAfterS ?? 1) : 0;
const gone: Code = "GONE";
// @ts-expect-error nobody declared this one
const wrong: Code = "NO_SUCH_CODE";
export const told: Code | null = isCode(error.code) ? error.code : null;
export const all = [wait, gone, wrong];
"""


@pytest.fixture(scope="module")
def compiler(root: Path) -> list[str]:
    """The command of the TypeScript compiler; without one the test is skipped, and says what was missing."""
    if shutil.which("node") is None:
        pytest.skip("TypeScript export NOT TESTED: there is no `node` on the path")
    if found := shutil.which("tsc"):
        return [found]
    kept = root / "build" / COMPILER
    program = kept / "node_modules" / "typescript" / "bin" / "tsc"
    if not program.exists():
        _install(kept)
    return ["node", str(program)]


def _install(kept: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("TypeScript export NOT TESTED: there is neither `tsc` nor `npm` on the path")
    draft = kept.with_name(f"{kept.name}.{os.getpid()}")
    draft.mkdir(parents=True)
    words = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(draft), COMPILER]
    try:
        ended = subprocess.run(words, capture_output=True, text=True, timeout=INSTALL_S_MAX, check=False)
        if ended.returncode:
            pytest.skip(f"TypeScript export NOT TESTED: npm could not install {COMPILER}: {ended.stderr[-300:]}")
        draft.replace(kept)  # whole or not at all, also when two test processes install it
    except subprocess.TimeoutExpired:
        pytest.skip(f"TypeScript export NOT TESTED: npm took longer than {INSTALL_S_MAX} s to install {COMPILER}")
    except OSError:
        assert kept.exists()
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def compiled(folder: Path, compiler: list[str], *files: str) -> None:
    (folder / "package.json").write_text('{"type": "module"}')
    ended = subprocess.run(
        [*compiler, *OPTIONS, *files], cwd=folder, capture_output=True, text=True, timeout=COMPILE_S_MAX, check=False
    )
    assert ended.returncode == 0, ended.stdout


@pytest.mark.timeout(600)
def test_it_compiles_strictly_and_reads_every_body_in_every_dialect(compiler: list[str], tmp_path: Path) -> None:
    catalogs = [*CORES, shop(), bank()]
    (tmp_path / "errors.ts").write_text(to_typescript(entries(catalogs)))
    (tmp_path / "use.ts").write_text(USE)
    (tmp_path / "empty.ts").write_text(to_typescript(entries([Catalog("empty")])))
    compiled(tmp_path, compiler, "errors.ts", "use.ts", "empty.ts")
    samples = [*rendered(catalogs), *strange(CORE)]
    (tmp_path / "cases.json").write_text(json.dumps(samples))
    (tmp_path / "run.mjs").write_text(PROGRAM)
    ended = subprocess.run(["node", "run.mjs"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    told: dict[str, Any] = json.loads(ended.stdout)
    for sample, read in zip(samples, told["read"], strict=True):
        assert {name: read[name] for name in sample["expected"]} == sample["expected"], sample
    assert told["forms"] == [4, 4, 4, 4]
    assert told["codes"] == [True, False, False]


def test_the_same_catalogs_give_the_same_text() -> None:
    assert to_typescript(entries(CORES)) == to_typescript(entries(CORES))
