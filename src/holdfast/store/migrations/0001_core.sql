-- Times are UTC microseconds. Ids are UUIDv7 text, so later rows sort later.

CREATE TABLE job (
  id TEXT /* postgresql: COLLATE "C" */ NOT NULL PRIMARY KEY,
  tenant TEXT NOT NULL DEFAULT '',
  queue TEXT NOT NULL,
  kind TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'queued',
  -- Where a queued job stands: not yet due, ready to be claimed, or to be tried apart because a worker died with it.
  lane TEXT NOT NULL DEFAULT 'ready',
  priority SMALLINT NOT NULL DEFAULT 0,
  due_us BIGINT NOT NULL,
  payload TEXT NOT NULL,
  dedupe_key TEXT,
  -- The dedupe key while it keeps others out; NULL once the job has failed or its window is over.
  unique_key TEXT,
  unique_until_us BIGINT,
  attempt_count INTEGER NOT NULL DEFAULT 0,
  -- Attempts that a dying worker took along with others; they are not held against the job.
  pardon_count INTEGER NOT NULL DEFAULT 0,
  attempts_max INTEGER,
  manual_retry_count INTEGER NOT NULL DEFAULT 0,
  -- How many attempts failed with each code, as JSON.
  code_counts TEXT,
  timeout_us BIGINT,
  lease_owner TEXT,
  token BIGINT NOT NULL DEFAULT 0,
  cancel_us BIGINT,
  trace TEXT,
  result TEXT,
  error_code TEXT,
  error_message TEXT,
  error_technical TEXT,
  fingerprint TEXT,
  created_us BIGINT NOT NULL,
  started_us BIGINT,
  last_attempt_us BIGINT,
  finished_us BIGINT,
  failed_us BIGINT,
  -- What a job may hold in each state, in one short check: PostgreSQL reads it anew for every statement.
  CONSTRAINT job_state CHECK (
    (state = 'processing') = (lease_owner IS NOT NULL)
    AND (state = 'complete') = (finished_us IS NOT NULL)
    AND (state = 'failed') = (failed_us IS NOT NULL)
    AND (state = 'queued' OR lease_owner IS NOT NULL OR finished_us IS NOT NULL OR failed_us IS NOT NULL)
    AND (started_us IS NOT NULL OR (lease_owner IS NULL AND finished_us IS NULL))
    AND (finished_us IS NOT NULL OR result IS NULL)
    AND (failed_us IS NOT NULL) = (error_code IS NOT NULL)
    AND (failed_us IS NOT NULL OR (error_message IS NULL AND error_technical IS NULL AND fingerprint IS NULL))
    AND (failed_us IS NULL OR unique_key IS NULL)
    AND pardon_count BETWEEN 0 AND attempt_count)
) /* postgresql: WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0) */;

-- A claim reads these in order and stops: the number of finished rows does not matter.
CREATE INDEX job_ready ON job (queue, lane, priority, due_us, id) WHERE state = 'queued';
CREATE INDEX job_waiting ON job (due_us) WHERE state = 'queued' AND lane = 'waiting';
CREATE INDEX job_held ON job (lease_owner) WHERE lease_owner IS NOT NULL;
CREATE UNIQUE INDEX job_unique_key ON job (tenant, queue, unique_key) WHERE unique_key IS NOT NULL;
CREATE INDEX job_dead ON job (failed_us, id) WHERE state = 'failed';
CREATE INDEX job_fingerprints ON job (fingerprint, failed_us) WHERE state = 'failed';
CREATE INDEX job_finished_at ON job (finished_us) WHERE state = 'complete';

-- What happened, written in the same transaction. An attempt is one row, which tells how it ended and when it was
-- claimed; while it goes on, the job's own row tells that. Half as many rows for each job make a drain a quarter faster.
CREATE TABLE journal (
  id /* postgresql: BIGINT GENERATED ALWAYS AS IDENTITY */ /* sqlite: INTEGER */ PRIMARY KEY,
  at_us BIGINT NOT NULL,
  subject TEXT /* postgresql: COLLATE "C" */ NOT NULL,
  verb TEXT NOT NULL,
  queue TEXT NOT NULL DEFAULT '',
  kind TEXT NOT NULL DEFAULT '',
  attempt INTEGER NOT NULL DEFAULT 0,
  worker TEXT NOT NULL DEFAULT '',
  code TEXT,
  upstream_status INTEGER,
  duration_us BIGINT,
  due_us BIGINT,
  reason TEXT,
  claimed_us BIGINT,
  -- Who held the attempt, where somebody else wrote down its end.
  claimed_by TEXT
);
CREATE INDEX journal_subject ON journal (subject, id);

-- One row for each transition of each job, in the order of `position`; `entry` is the journal's row that tells it.
CREATE VIEW job_event AS
SELECT 0 AS entry, 0 AS position, id AS subject, created_us AS at_us, 'enqueued' AS verb, 0 AS attempt, '' AS worker,
       CAST(NULL AS TEXT) AS code, CAST(NULL AS INTEGER) AS upstream_status, CAST(NULL AS BIGINT) AS duration_us,
       CASE WHEN lane = 'waiting' AND attempt_count = 0 THEN due_us END AS due_us, CAST(NULL AS TEXT) AS reason
  FROM job
UNION ALL
SELECT id, id * 2, subject, claimed_us, 'claimed', attempt, COALESCE(claimed_by, worker), NULL, NULL, NULL, NULL, NULL
  FROM journal WHERE claimed_us IS NOT NULL
UNION ALL
SELECT id, id * 2 + 1, subject, at_us, verb, attempt, worker, code, upstream_status, duration_us, due_us, reason
  FROM journal
UNION ALL
-- The attempt that goes on.
SELECT entry, entry * 2 + 2, id, last_attempt_us, 'claimed', attempt_count, lease_owner, NULL, NULL, NULL, NULL, NULL
  FROM (SELECT id, last_attempt_us, attempt_count, lease_owner,
               COALESCE((SELECT max(journal.id) FROM journal WHERE journal.subject = job.id), 0) AS entry
          FROM job WHERE lease_owner IS NOT NULL) AS held;

CREATE TABLE worker (
  id TEXT NOT NULL PRIMARY KEY,
  host TEXT NOT NULL,
  process INTEGER NOT NULL,
  queues TEXT NOT NULL,
  started_us BIGINT NOT NULL,
  seen_us BIGINT NOT NULL,
  lease_until_us BIGINT NOT NULL
);
CREATE INDEX worker_lease ON worker (lease_until_us);

CREATE TABLE queue (
  name TEXT NOT NULL PRIMARY KEY,
  paused_us BIGINT,
  paused_reason TEXT,
  CONSTRAINT queue_reason CHECK (paused_reason IS NULL OR paused_us IS NOT NULL)
);

-- Breakers shared by all processes. A closed breaker has no hold; an open one says why and until when.
CREATE TABLE breaker (
  name TEXT NOT NULL PRIMARY KEY,
  state TEXT NOT NULL DEFAULT 'closed',
  mode TEXT NOT NULL DEFAULT 'hold',
  reason TEXT,
  opened_us BIGINT,
  until_us BIGINT,
  probes_left INTEGER NOT NULL DEFAULT 0,
  probes_good INTEGER NOT NULL DEFAULT 0,
  generation BIGINT NOT NULL DEFAULT 0,
  CONSTRAINT breaker_state CHECK (state IN ('closed', 'open', 'half_open')),
  CONSTRAINT breaker_mode CHECK (mode IN ('hold', 'fail_fast')),
  CONSTRAINT breaker_open CHECK ((opened_us IS NULL) = (state = 'closed')),
  CONSTRAINT breaker_until CHECK ((until_us IS NULL) = (state = 'closed'))
);
CREATE TABLE breaker_count (
  name TEXT NOT NULL,
  slice_us BIGINT NOT NULL,
  calls INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  PRIMARY KEY (name, slice_us)
);

CREATE TABLE periodic (
  name TEXT NOT NULL,
  queue TEXT NOT NULL,
  kind TEXT NOT NULL,
  schedule TEXT NOT NULL,
  payload TEXT NOT NULL,
  due_us BIGINT NOT NULL,
  fired_us BIGINT,
  vouched_us BIGINT NOT NULL,
  PRIMARY KEY (name, queue, kind)
);

CREATE TABLE idempotency (
  tenant TEXT NOT NULL,
  operation TEXT NOT NULL,
  key TEXT NOT NULL,
  request_hash TEXT NOT NULL,
  state TEXT NOT NULL,
  token BIGINT NOT NULL DEFAULT 1,
  lease_until_us BIGINT,
  status INTEGER,
  headers TEXT,
  body /* postgresql: BYTEA */ /* sqlite: BLOB */,
  resources TEXT,
  first_seen_us BIGINT NOT NULL,
  last_seen_us BIGINT NOT NULL,
  expires_us BIGINT NOT NULL,
  PRIMARY KEY (tenant, operation, key),
  CONSTRAINT idempotency_state CHECK (state IN ('working', 'done')),
  CONSTRAINT idempotency_lease CHECK ((lease_until_us IS NOT NULL) = (state = 'working')),
  CONSTRAINT idempotency_answer CHECK ((status IS NOT NULL) = (state = 'done'))
);
CREATE INDEX idempotency_expires ON idempotency (expires_us);
