"""The TypeScript error class, made from the catalog: `python -m holdfast_systems.records.typescript`."""

from __future__ import annotations

import json
import sys

from holdfast.analysis import entries, to_typescript
from holdfast_systems.records.faults import RECORDS, RETRY_CLASSES, RetryClass

CLASS = """
/** An error body of the records API. */
export interface ErrorResponse {
  readonly error_code: string;
  readonly message: string;
  readonly request_id: string;
  readonly details?: Readonly<Record<string, unknown>>;
  readonly timestamp?: string;
  readonly retry_after?: number;
  readonly documentation_url?: string;
}

/** Codes of which the details of the occurrence say whether to retry. */
const CONDITIONAL: ReadonlySet<string> = new Set(__CONDITIONAL__);

/** What the records API answered in place of a result. */
export class RenderDBError extends ApiError {
  constructor(errorResponse: ErrorResponse, status?: number) {
    const read = ApiError.parse(status ?? statusOf(errorResponse.error_code), {}, errorResponse);
    const conditional = CONDITIONAL.has(read.code);
    super(read.code, {
      message: read.message,
      status: read.status,
      retryable: conditional ? read.details["retryable"] === true : read.retryable,
      retryAfterS: read.retryAfterS,
      details: read.details,
      requestId: read.requestId,
      traceId: read.traceId,
      documentationUrl: read.documentationUrl,
      dialect: read.dialect,
    });
    this.name = "RenderDBError";
  }

  isRetryable(errorCode: string = this.code): boolean {
    return errorCode === this.code ? this.retryable : isCode(errorCode) && CODES[errorCode]?.[1] === true;
  }
}

function statusOf(code: string): number {
  const known = CODES[code]?.[0];
  return typeof known === "number" ? known : 500;
}
"""


def render_db_error() -> str:
    """The file's source, the same for the same catalog."""
    conditional = sorted(code for code, retries in RETRY_CLASSES.items() if retries is RetryClass.CONDITIONAL)
    return to_typescript(entries([RECORDS])) + CLASS.replace("__CONDITIONAL__", json.dumps(conditional))


if __name__ == "__main__":
    sys.stdout.write(render_db_error())
