"""The TypeScript error class: compiled by the strict compiler, then run by Node."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast_systems.records.typescript import render_db_error

COMPILER = "typescript@5.9.3"
OPTIONS = (
    *("--strict", "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes", "--noImplicitReturns"),
    *("--target", "ES2020", "--lib", "ES2020", "--module", "ES2020", "--outDir", "out"),
)
PROGRAM = """
import { RenderDBError } from "./out/errors.js";
const body = (error_code, details) => ({ error_code, message: "words", request_id: "req_1", details, retry_after: 7 });
const told = [
  new RenderDBError(body("NETWORK_TIMEOUT", {})), new RenderDBError(body("VALIDATION_ERROR", {})),
  new RenderDBError(body("IDEMPOTENCY_CONFLICT", { retryable: true })),
  new RenderDBError(body("IDEMPOTENCY_CONFLICT", { retryable: false })), new RenderDBError(body("SLOT_CONFLICT", {})),
].map((error) => ({ code: error.code, retryable: error.retryable, status: error.status, wait: error.retryAfterS,
                    id: error.requestId, message: error.message, name: error.name, is: error instanceof Error }));
console.log(JSON.stringify(told));
"""


@pytest.fixture(scope="module")
def compiler(root: Path) -> list[str]:
    """The command of the TypeScript compiler, installed once into `build/`; without one the test is skipped."""
    if shutil.which("node") is None:
        pytest.skip("RenderDBError in TypeScript NOT TESTED: there is no `node` on the path")
    if found := shutil.which("tsc"):
        return [found]
    kept = root / "build" / COMPILER
    program = kept / "node_modules" / "typescript" / "bin" / "tsc"
    if not program.exists():
        draft = kept.with_name(f"{kept.name}.{os.getpid()}.records")
        draft.mkdir(parents=True)
        words = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(draft), COMPILER]
        try:
            subprocess.run(words, capture_output=True, timeout=60, check=True)
            draft.replace(kept)
        except (OSError, subprocess.SubprocessError):
            shutil.rmtree(draft, ignore_errors=True)
        if not program.exists():
            pytest.skip(f"RenderDBError in TypeScript NOT TESTED: npm could not install {COMPILER}")
    return ["node", str(program)]


@pytest.mark.timeout(600)
def test_it_compiles_strictly_and_decides_by_the_catalog(compiler: list[str], tmp_path: Path) -> None:
    (tmp_path / "errors.ts").write_text(render_db_error())
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "run.mjs").write_text(PROGRAM)
    ended = subprocess.run([*compiler, *OPTIONS, "errors.ts"], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout
    run = subprocess.run(["node", "run.mjs"], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    assert [(one["code"], one["retryable"], one["status"]) for one in told] == [
        ("NETWORK_TIMEOUT", True, 504),
        ("VALIDATION_ERROR", False, 400),
        ("IDEMPOTENCY_CONFLICT", True, 409),
        ("IDEMPOTENCY_CONFLICT", False, 409),
        ("SLOT_CONFLICT", False, 409),
    ]
    assert {(one["wait"], one["id"], one["name"], one["is"]) for one in told} == {(7, "req_1", "RenderDBError", True)}
