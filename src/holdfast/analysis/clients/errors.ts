// Errors of the API, as a client sees them. Made by `holdfast catalog export --format typescript`; do not edit.
//
//   const error = ApiError.parse(response.status, response.headers, await response.text());
//   if (error.retryable) await wait(error.retryAfterS ?? 1);
//
// An error body may have any of four shapes; all of them are read, and whatever arrives becomes an ApiError.

/** A status, and whether the code is retried. */
type Contract = readonly (number | boolean)[];

// -- tables --
// -- end of tables --

/** The shape of an error body. */
export type Dialect = "nested" | "flat" | "full" | "problem";

/** Headers as `fetch` gives them, as pairs, or as a plain object; names in any case. */
export type HeadersLike =
  | Iterable<readonly [string, string]>
  | Readonly<Record<string, string | readonly string[] | undefined>>;

export interface ParseOptions {
  /** The name of the catalog that the API uses, where several are known and disagree on a code. */
  readonly catalog?: string;
  /** The present, in milliseconds since 1970, for a Retry-After that is a date. */
  readonly nowMs?: number;
}

export interface ApiErrorFacts {
  readonly message?: string;
  readonly status: number;
  readonly retryable: boolean;
  readonly retryAfterS?: number | null;
  readonly details?: Readonly<Record<string, unknown>>;
  readonly requestId?: string;
  readonly traceId?: string;
  readonly documentationUrl?: string;
  readonly dialect?: Dialect | null;
}

/** What the API answered in place of a result. */
export class ApiError extends Error {
  /** What went wrong; `isCode` says whether it is declared. */
  readonly code: Code | (string & {});
  readonly status: number;
  /** Whether the same request may work later. */
  readonly retryable: boolean;
  /** The seconds to wait that the API asks for, if it does. */
  readonly retryAfterS: number | null;
  readonly details: Readonly<Record<string, unknown>>;
  readonly requestId: string;
  readonly traceId: string;
  readonly documentationUrl: string;
  /** The shape of the body; null when there was none to read. */
  readonly dialect: Dialect | null;

  constructor(code: Code | (string & {}), facts: ApiErrorFacts) {
    super(facts.message ?? "");
    this.name = "ApiError";
    this.code = code;
    this.status = facts.status;
    this.retryable = facts.retryable;
    this.retryAfterS = facts.retryAfterS ?? null;
    this.details = facts.details ?? {};
    this.requestId = facts.requestId ?? "";
    this.traceId = facts.traceId ?? "";
    this.documentationUrl = facts.documentationUrl ?? "";
    this.dialect = facts.dialect ?? null;
  }

  /** The error that a response carries; the body is text or parsed JSON. Never throws. */
  static parse(status: number, headers: HeadersLike, body: unknown, options: ParseOptions = {}): ApiError {
    const document = decoded(body);
    const dialect = dialectOf(document);
    const members = dialect === null ? {} : dialect === "nested" ? (document["error"] as Members) : document;
    const [codeName, messageName] = NAMES[dialect ?? "flat"];
    const details = isMembers(members["details"]) ? members["details"] : {};
    const asked = dialect === "flat" ? details["retry_after_seconds"] : members["retry_after"];
    const nowMs = options.nowMs ?? Date.now();
    const waitS = secondsOf(asked, nowMs) ?? secondsOf(headerOf(headers, "retry-after"), nowMs);
    const named = textOf(members[codeName]);
    const usable = named.length <= CODE_CHARS_MAX && CODE_SHAPE.test(named);
    const title = dialect === "problem" ? textOf(members["title"]) : "";
    return new ApiError(usable ? named : unnamed(status), {
      message: (textOf(members[messageName]) || title).slice(0, TEXT_CHARS_MAX),
      status,
      retryable: usable ? isRetryable(named, status, waitS, options.catalog) : isUnnamedRetryable(status),
      retryAfterS: waitS,
      details,
      requestId: identifierOf(members["request_id"]) || identifierOf(headerOf(headers, "x-request-id")),
      traceId: identifierOf(members[dialect === "nested" ? "traceId" : "trace_id"]),
      documentationUrl: textOf(members[dialect === "problem" ? "type" : "documentation_url"]),
      dialect,
    });
  }
}

/** Whether a code is one of those that are declared. */
export function isCode(code: string): code is Code {
  return Object.prototype.hasOwnProperty.call(CODES, code);
}

/** The same as `ApiError.parse`. */
export function parse(status: number, headers: HeadersLike, body: unknown, options: ParseOptions = {}): ApiError {
  return ApiError.parse(status, headers, body, options);
}

type Members = Readonly<Record<string, unknown>>;

const NAMES: Readonly<Record<Dialect, readonly [string, string]>> = {
  nested: ["code", "message"],
  flat: ["code", "error"],
  full: ["error_code", "message"],
  problem: ["code", "detail"],
};
const CODE_SHAPE = /^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$/;
const SECONDS = /^[0-9]+(\.[0-9]+)?$/;
const CLOCK_TIME = /\b[0-9]{1,2}:[0-9]{2}:[0-9]{2}\b/;
const ZONE = /(GMT|UTC|[+-][0-9]{4})\s*$/;
// What would break a line or a header: control characters, and separators other than the space.
const UNPRINTABLE = /[\p{C}\p{Z}]/u;
const CODE_CHARS_MAX = 64;
const TEXT_CHARS_MAX = 1000;
const ID_CHARS_MAX = 128;
const DATE_CHARS_MAX = 64;
const BODY_CHARS_MAX = 1048576;

function own<T>(table: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.prototype.hasOwnProperty.call(table, key) ? table[key] : undefined;
}

function isRetryable(code: string, status: number, waitS: number | null, catalog: string | undefined): boolean {
  const declared = own(CODES, code);
  if (declared === undefined) return CODES_RETRIED.has(code) || STATUSES_RETRIED.has(status) || waitS !== null;
  const differing = own(DIFFERING, code);
  if (differing === undefined) return declared[1] === true;
  const exact = catalog === undefined ? undefined : own(differing, catalog);
  if (exact !== undefined) return exact[1] === true;
  // Nobody says whose code it is: the status may tell, and in doubt it is not retried.
  const every = Object.values(differing);
  const likely = every.filter((contract) => contract[0] === status);
  return (likely.length > 0 ? likely : every).every((contract) => contract[1] === true);
}

/** The code that stands for a response without one. */
function unnamed(status: number): string {
  const found = UNNAMED[status] ?? UNNAMED[Math.floor(status / 100)];
  return found ?? (status >= 100 && status < 400 ? "INVALID_RESPONSE" : "UNKNOWN");
}

function isUnnamedRetryable(status: number): boolean {
  return UNNAMED_RETRIED.some(([first, last]) => first <= status && status <= last);
}

function decoded(body: unknown): Members {
  let value = body;
  if (typeof body === "string") {
    if (body.length > BODY_CHARS_MAX) return {};
    try {
      value = JSON.parse(body);
    } catch {
      return {};
    }
  }
  return isMembers(value) ? value : {};
}

function isMembers(value: unknown): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function dialectOf(document: Members): Dialect | null {
  if (typeof document["error_code"] === "string") return "full";
  if (isMembers(document["error"])) return "nested";
  if (typeof document["error"] === "string") return "flat";
  if (["type", "title", "detail"].some((name) => typeof document[name] === "string")) return "problem";
  const status = document["status"];
  return typeof status === "number" && Number.isInteger(status) && status >= 200 && status <= 599 ? "problem" : null;
}

function headerOf(headers: HeadersLike, wanted: string): string {
  const pairs: Iterable<readonly [string, unknown]> = isPairs(headers) ? headers : Object.entries(headers);
  for (const [name, value] of pairs) {
    if (name.toLowerCase() === wanted) return textOf(Array.isArray(value) ? value[0] : value);
  }
  return "";
}

function isPairs(headers: HeadersLike): headers is Iterable<readonly [string, string]> {
  return Symbol.iterator in headers;
}

function secondsOf(asked: unknown, nowMs: number): number | null {
  const seconds = typeof asked === "string" ? secondsOfText(asked.trim(), nowMs) : asked;
  if (typeof seconds !== "number" || Number.isNaN(seconds) || seconds < 0) return null;
  return Math.min(seconds, RETRY_AFTER_S_MAX);
}

function secondsOfText(text: string, nowMs: number): number | null {
  if (SECONDS.test(text)) return Number(text);
  if (text.length > DATE_CHARS_MAX || !CLOCK_TIME.test(text)) return null;
  const momentMs = Date.parse(ZONE.test(text) ? text : `${text} GMT`);
  return Number.isNaN(momentMs) ? null : Math.max(0, (momentMs - nowMs) / 1000);
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function identifierOf(value: unknown): string {
  const text = textOf(value);
  return text.length <= ID_CHARS_MAX && !UNPRINTABLE.test(text.replace(/ /g, "")) ? text : "";
}
