-- Times are UTC microseconds. Ids are UUIDv7 text, so later rows sort later.

CREATE TABLE holdfast_job (
  id TEXT /* postgresql: COLLATE "C" */ NOT NULL PRIMARY KEY,
  tenant TEXT NOT NULL DEFAULT '',
  queue TEXT NOT NULL,
  kind TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'queued',
  -- Where a queued job stands: not yet due, ready to be claimed, to be tried apart because a worker died with it, or
  -- blocked by the head of its sequence.
  lane TEXT NOT NULL DEFAULT 'ready',
  priority SMALLINT NOT NULL DEFAULT 0,
  due_us BIGINT NOT NULL,
  payload TEXT NOT NULL,
  dedupe_key TEXT,
  -- The dedupe key while it keeps others out; NULL once the job has failed or its window is over.
  unique_key TEXT,
  unique_until_us BIGINT,
  attempt_count INTEGER NOT NULL DEFAULT 0,
  -- Attempts that a dying worker took along with others; they are not held against the job, which is tried apart
  -- after the second.
  pardon_count INTEGER NOT NULL DEFAULT 0,
  attempts_max INTEGER,
  manual_retry_count INTEGER NOT NULL DEFAULT 0,
  -- How many attempts failed with each code, as JSON.
  code_counts TEXT,
  timeout_us BIGINT,
  lease_owner TEXT,
  -- Grows with every claim. Below zero: enqueued in somebody else's transaction, and no worker has seen it yet.
  token BIGINT NOT NULL DEFAULT 0,
  cancel_us BIGINT,
  -- Jobs of one sequence run one after the other, in the order of their positions.
  sequence TEXT /* postgresql: COLLATE "C" */,
  sequence_position BIGINT,
  trace TEXT,
  result TEXT,
  error_code TEXT,
  error_message TEXT,
  error_technical TEXT,
  fingerprint TEXT,
  -- Where in the user's own code it was raised, and what the upstream said.
  error_place TEXT,
  remote_status INTEGER,
  remote_code TEXT,
  remote_message TEXT,
  created_us BIGINT NOT NULL,
  started_us BIGINT,
  last_attempt_us BIGINT,
  finished_us BIGINT,
  failed_us BIGINT,
  -- What a job may hold in each state, in one short check: PostgreSQL reads it anew for every statement.
  CONSTRAINT holdfast_job_state CHECK (
    (state = 'processing') = (lease_owner IS NOT NULL)
    AND (state = 'complete') = (finished_us IS NOT NULL)
    AND (state = 'failed') = (failed_us IS NOT NULL)
    AND (state = 'queued' OR lease_owner IS NOT NULL OR finished_us IS NOT NULL OR failed_us IS NOT NULL)
    AND (started_us IS NOT NULL OR (lease_owner IS NULL AND finished_us IS NULL))
    AND (finished_us IS NOT NULL OR result IS NULL)
    AND (failed_us IS NOT NULL) = (error_code IS NOT NULL)
    AND (failed_us IS NOT NULL OR (error_message IS NULL AND error_technical IS NULL AND fingerprint IS NULL
                                  AND error_place IS NULL AND remote_status IS NULL AND remote_code IS NULL
                                  AND remote_message IS NULL))
    AND (failed_us IS NULL OR unique_key IS NULL)
    AND pardon_count BETWEEN 0 AND attempt_count
    AND (sequence IS NULL) = (sequence_position IS NULL))
) /* postgresql: WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0) */;

-- A claim reads these in order and stops: the number of finished rows does not matter.
CREATE INDEX holdfast_job_ready ON holdfast_job (queue, lane, priority, due_us, id) WHERE state = 'queued';
CREATE INDEX holdfast_job_waiting ON holdfast_job (due_us) WHERE state = 'queued' AND lane = 'waiting';
CREATE INDEX holdfast_job_unseen ON holdfast_job (id) WHERE token < 0;
-- The next job of a sequence is one look, however many are blocked; and of each sequence one job at most is not.
CREATE INDEX holdfast_job_blocked ON holdfast_job (sequence, sequence_position) WHERE state = 'queued' AND lane = 'blocked';
CREATE UNIQUE INDEX holdfast_job_head ON holdfast_job (sequence)
  WHERE sequence IS NOT NULL AND state IN ('queued', 'processing') AND lane <> 'blocked';
CREATE INDEX holdfast_job_held ON holdfast_job (lease_owner) WHERE lease_owner IS NOT NULL;
CREATE UNIQUE INDEX holdfast_job_unique_key ON holdfast_job (tenant, queue, unique_key) WHERE unique_key IS NOT NULL;
CREATE INDEX holdfast_job_dead ON holdfast_job (failed_us, id) WHERE state = 'failed';
-- Dead letters of one queue are counted without looking at those of the others.
CREATE INDEX holdfast_job_dead_queue ON holdfast_job (queue, failed_us) WHERE state = 'failed';
CREATE INDEX holdfast_job_fingerprints ON holdfast_job (fingerprint, failed_us) WHERE state = 'failed';
CREATE INDEX holdfast_job_finished_at ON holdfast_job (finished_us) WHERE state = 'complete';

-- What happened, written in the same transaction. An attempt is one row, which tells how it ended and when it was
-- claimed; while it goes on, the job's own row tells that. Half as many rows for each job make a drain a quarter faster.
CREATE TABLE holdfast_journal (
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
  claimed_by TEXT,
  remote_code TEXT,
  remote_message TEXT,
  -- JSON: the exceptions of an attempt that failed, each with its calls.
  traceback TEXT
);
CREATE INDEX holdfast_journal_subject ON holdfast_journal (subject, id);

-- One row for each transition of each job, in the order of `position`; `entry` is the journal's row that tells it.
CREATE VIEW holdfast_job_event AS
SELECT 0 AS entry, 0 AS position, id AS subject, created_us AS at_us, 'enqueued' AS verb, 0 AS attempt, '' AS worker,
       CAST(NULL AS TEXT) AS code, CAST(NULL AS INTEGER) AS upstream_status, CAST(NULL AS BIGINT) AS duration_us,
       CASE WHEN lane = 'waiting' AND attempt_count = 0 THEN due_us END AS due_us, CAST(NULL AS TEXT) AS reason,
       CAST(NULL AS TEXT) AS remote_code, CAST(NULL AS TEXT) AS remote_message, CAST(NULL AS TEXT) AS traceback
  FROM holdfast_job
UNION ALL
SELECT id, id * 2, subject, claimed_us, 'claimed', attempt, COALESCE(claimed_by, worker), NULL, NULL, NULL, NULL, NULL,
       NULL, NULL, NULL
  FROM holdfast_journal WHERE claimed_us IS NOT NULL
UNION ALL
SELECT id, id * 2 + 1, subject, at_us, verb, attempt, worker, code, upstream_status, duration_us, due_us, reason,
       remote_code, remote_message, traceback
  FROM holdfast_journal
UNION ALL
-- The attempt that goes on.
SELECT entry, entry * 2 + 2, id, last_attempt_us, 'claimed', attempt_count, lease_owner, NULL, NULL, NULL, NULL, NULL,
       NULL, NULL, NULL
  FROM (SELECT id, last_attempt_us, attempt_count, lease_owner,
               COALESCE((SELECT max(journal.id) FROM holdfast_journal AS journal WHERE journal.subject = job.id), 0) AS entry
          FROM holdfast_job AS job WHERE lease_owner IS NOT NULL) AS held;

-- The last position of each sequence; its row lock puts those who add to a sequence one behind the other.
CREATE TABLE holdfast_job_sequence (
  name TEXT /* postgresql: COLLATE "C" */ PRIMARY KEY,
  position BIGINT NOT NULL,
  used_us BIGINT NOT NULL
);
CREATE INDEX holdfast_job_sequence_used ON holdfast_job_sequence (used_us);

CREATE TABLE holdfast_worker (
  id TEXT NOT NULL PRIMARY KEY,
  host TEXT NOT NULL,
  process INTEGER NOT NULL,
  queues TEXT NOT NULL,
  started_us BIGINT NOT NULL,
  seen_us BIGINT NOT NULL,
  lease_until_us BIGINT NOT NULL
);
CREATE INDEX holdfast_worker_lease ON holdfast_worker (lease_until_us);

CREATE TABLE holdfast_queue (
  name TEXT NOT NULL PRIMARY KEY,
  paused_us BIGINT,
  paused_reason TEXT,
  CONSTRAINT holdfast_queue_reason CHECK (paused_reason IS NULL OR paused_us IS NOT NULL)
);

-- Breakers shared by all processes. A closed breaker has no hold; an open one says why and until when.
CREATE TABLE holdfast_breaker (
  name TEXT NOT NULL PRIMARY KEY,
  state TEXT NOT NULL DEFAULT 'closed',
  mode TEXT NOT NULL DEFAULT 'hold',
  reason TEXT,
  opened_us BIGINT,
  until_us BIGINT,
  probes_left INTEGER NOT NULL DEFAULT 0,
  probes_good INTEGER NOT NULL DEFAULT 0,
  generation BIGINT NOT NULL DEFAULT 0,
  CONSTRAINT holdfast_breaker_state CHECK (state IN ('closed', 'open', 'half_open')),
  CONSTRAINT holdfast_breaker_mode CHECK (mode IN ('hold', 'fail_fast')),
  CONSTRAINT holdfast_breaker_open CHECK ((opened_us IS NULL) = (state = 'closed')),
  CONSTRAINT holdfast_breaker_until CHECK ((until_us IS NULL) = (state = 'closed'))
);
CREATE TABLE holdfast_breaker_count (
  name TEXT NOT NULL,
  slice_us BIGINT NOT NULL,
  calls INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  PRIMARY KEY (name, slice_us)
);

CREATE TABLE holdfast_periodic (
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

CREATE TABLE holdfast_idempotency (
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
  CONSTRAINT holdfast_idempotency_state CHECK (state IN ('working', 'done')),
  CONSTRAINT holdfast_idempotency_lease CHECK ((lease_until_us IS NOT NULL) = (state = 'working')),
  CONSTRAINT holdfast_idempotency_answer CHECK ((status IS NOT NULL) = (state = 'done'))
);
CREATE INDEX holdfast_idempotency_expires ON holdfast_idempotency (expires_us);

-- What the edge remembers for all processes.

-- A rate limit of one subject (an origin, a key, a tenant) under one rule. A moment that has passed means that the
-- whole burst is there: such a row says the same as none.
CREATE TABLE holdfast_rate_limit (
  rule TEXT NOT NULL,
  subject TEXT NOT NULL,
  tat_us BIGINT NOT NULL,
  PRIMARY KEY (rule, subject)
);
CREATE INDEX holdfast_rate_limit_idle ON holdfast_rate_limit (tat_us);

-- API keys. Only a hash of the key is here; the prefix finds the row and may be shown.
CREATE TABLE holdfast_api_key (
  id TEXT /* postgresql: COLLATE "C" */ PRIMARY KEY,
  prefix TEXT NOT NULL UNIQUE,
  hash TEXT NOT NULL,
  name TEXT NOT NULL,
  tenant TEXT NOT NULL DEFAULT '',
  created_us BIGINT NOT NULL,
  expires_us BIGINT,
  revoked_us BIGINT,
  CONSTRAINT holdfast_api_key_hash CHECK (length(hash) = 64),
  CONSTRAINT holdfast_api_key_expires CHECK (expires_us IS NULL OR expires_us > created_us)
);
CREATE INDEX holdfast_api_key_tenant ON holdfast_api_key (tenant, id);

-- Secrets that all processes share, such as what signs session cookies; encrypted where HOLDFAST_SECRET_KEY is set.

CREATE TABLE holdfast_secret (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL,
  created_us BIGINT NOT NULL
);

-- Sessions of operators who signed out; a row goes when its session would have been over anyway.

CREATE TABLE holdfast_ended_session (
  id TEXT PRIMARY KEY,
  until_us BIGINT NOT NULL
);

-- Webhooks: who is told, what they are told, and which job tells whom.

CREATE TABLE holdfast_webhook_endpoint (
  id TEXT PRIMARY KEY,
  tenant TEXT NOT NULL DEFAULT '',
  url TEXT NOT NULL,
  scheme TEXT NOT NULL,
  -- JSON: a list of event types, a list of delays in seconds, an object of headers.
  event_types TEXT NOT NULL,
  delays_s TEXT NOT NULL,
  headers TEXT NOT NULL,
  timeout_us BIGINT NOT NULL,
  retry_after_max_us BIGINT NOT NULL,
  in_flight_max INTEGER NOT NULL,
  limit_count INTEGER,
  limit_per_us BIGINT,
  limit_burst INTEGER,
  ordered SMALLINT NOT NULL DEFAULT 0,
  disabled_us BIGINT,
  disabled_reason TEXT,
  created_us BIGINT NOT NULL,
  CONSTRAINT holdfast_webhook_endpoint_limit CHECK (
    (limit_count IS NULL) = (limit_per_us IS NULL) AND (limit_count IS NULL) = (limit_burst IS NULL)),
  CONSTRAINT holdfast_webhook_endpoint_ordered CHECK (ordered IN (0, 1)),
  CONSTRAINT holdfast_webhook_endpoint_disabled CHECK ((disabled_us IS NULL) = (disabled_reason IS NULL))
);
CREATE INDEX holdfast_webhook_endpoint_enabled ON holdfast_webhook_endpoint (tenant, id) WHERE disabled_us IS NULL;

-- The secrets themselves, because signing needs them: encrypted where HOLDFAST_SECRET_KEY is set, with the name of the
-- key. Where it is not, whoever reads this table can sign in our name.
CREATE TABLE holdfast_webhook_secret (
  id TEXT PRIMARY KEY,
  endpoint_id TEXT NOT NULL REFERENCES holdfast_webhook_endpoint (id) ON DELETE CASCADE,
  secret TEXT NOT NULL,
  created_us BIGINT NOT NULL,
  expires_us BIGINT
);
CREATE INDEX holdfast_webhook_secret_of ON holdfast_webhook_secret (endpoint_id, id);

-- How far the own rate limit of an endpoint is used up.
CREATE TABLE holdfast_webhook_pace (
  endpoint_id TEXT PRIMARY KEY REFERENCES holdfast_webhook_endpoint (id) ON DELETE CASCADE,
  tat_us BIGINT NOT NULL
);

CREATE TABLE holdfast_webhook_event (
  tenant TEXT NOT NULL DEFAULT '',
  -- Of the tenant: another one may use the same.
  id TEXT NOT NULL,
  type TEXT NOT NULL,
  order_key TEXT,
  -- The payload as JSON. It is sent as the `data` of an envelope that names the type and this time; where there is
  -- none, the payload itself is sent.
  body TEXT NOT NULL,
  occurred_us BIGINT,
  -- Which call published it, so that a call that is repeated recognises its own work.
  published_by TEXT NOT NULL,
  created_us BIGINT NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX holdfast_webhook_event_created ON holdfast_webhook_event (created_us);

-- The job that brings an event to an endpoint.
CREATE TABLE holdfast_webhook_delivery (
  tenant TEXT NOT NULL DEFAULT '',
  event_id TEXT NOT NULL,
  endpoint_id TEXT NOT NULL,
  job_id TEXT /* postgresql: COLLATE "C" */ NOT NULL,
  PRIMARY KEY (tenant, event_id, endpoint_id)
);
CREATE UNIQUE INDEX holdfast_webhook_delivery_job ON holdfast_webhook_delivery (job_id);

-- What is counted, for all processes together. Labels are canonical JSON text; a histogram is its buckets, each by
-- itself, its sum and its count.

CREATE TABLE holdfast_metric_total (
  name TEXT NOT NULL,
  labels TEXT NOT NULL,
  value /* postgresql: DOUBLE PRECISION */ /* sqlite: REAL */ NOT NULL,
  seen_us BIGINT NOT NULL,
  PRIMARY KEY (name, labels)
) /* postgresql: WITH (fillfactor = 70) */ /* sqlite: WITHOUT ROWID */;

-- The same by time: in slices of so many seconds, each event in exactly one. Old slices are folded into wider ones.
CREATE TABLE holdfast_metric_slice (
  width_s INTEGER NOT NULL,
  name TEXT NOT NULL,
  slice_us BIGINT NOT NULL,
  labels TEXT NOT NULL,
  value /* postgresql: DOUBLE PRECISION */ /* sqlite: REAL */ NOT NULL,
  PRIMARY KEY (width_s, name, slice_us, labels)
) /* postgresql: WITH (fillfactor = 70) */ /* sqlite: WITHOUT ROWID */;
CREATE INDEX holdfast_metric_slice_old ON holdfast_metric_slice (width_s, slice_us);

-- The last batch of each process, so that one whose reply was lost is not added twice; and when it was last heard of.
CREATE TABLE holdfast_metric_flush (
  process TEXT PRIMARY KEY,
  sequence BIGINT NOT NULL,
  seen_us BIGINT NOT NULL
);
CREATE INDEX holdfast_metric_flush_seen ON holdfast_metric_flush (seen_us);

-- What only a process itself knows at a moment, such as the state of its own breakers. Counts while it is heard of.
CREATE TABLE holdfast_metric_gauge (
  process TEXT NOT NULL,
  name TEXT NOT NULL,
  labels TEXT NOT NULL,
  value /* postgresql: DOUBLE PRECISION */ /* sqlite: REAL */ NOT NULL,
  PRIMARY KEY (process, name, labels)
);

-- Work that one process does for all, and when it was last done.
CREATE TABLE holdfast_metric_turn (
  name TEXT PRIMARY KEY,
  taken_us BIGINT NOT NULL
);

-- Alerts, and the switches that they flip. Shared by all processes: whoever moves a row has told about it.

-- One row for each cause: a rule, and the value of its label where it looks at each one apart. A row is never deleted
-- while somebody could still hold its version; rows of long ago are pruned.
CREATE TABLE holdfast_alert (
  rule TEXT /* postgresql: COLLATE "C" */ NOT NULL,
  cause TEXT /* postgresql: COLLATE "C" */ NOT NULL DEFAULT '',
  phase TEXT NOT NULL,
  -- Since when the condition holds; when it was told; when it was over.
  began_us BIGINT,
  fired_us BIGINT,
  resolved_us BIGINT,
  -- What was read at the last move, and when.
  value DOUBLE PRECISION,
  at_us BIGINT NOT NULL,
  version BIGINT NOT NULL DEFAULT 1,
  -- JSON: for each sink the job that took the last notice to it.
  notices TEXT NOT NULL DEFAULT '{}',
  PRIMARY KEY (rule, cause),
  CONSTRAINT holdfast_alert_phase CHECK (phase IN ('inactive', 'pending', 'firing', 'resolved')),
  CONSTRAINT holdfast_alert_began CHECK ((began_us IS NULL) = (phase = 'inactive')),
  CONSTRAINT holdfast_alert_fired CHECK ((fired_us IS NULL) = (phase IN ('inactive', 'pending'))),
  CONSTRAINT holdfast_alert_resolved CHECK ((resolved_us IS NULL) = (phase <> 'resolved'))
);
CREATE INDEX holdfast_alert_quiet ON holdfast_alert (at_us) WHERE phase IN ('inactive', 'resolved');

-- A switch stands for two providers of the same thing, each behind a link of its own.
CREATE TABLE holdfast_switch (
  name TEXT PRIMARY KEY,
  primary_link TEXT NOT NULL,
  fallback_link TEXT NOT NULL,
  side TEXT NOT NULL DEFAULT 'primary',
  -- Who flipped it last: `alert:…` or `hand`. An alert that is over takes back only what it did itself.
  flipped_by TEXT,
  flipped_us BIGINT,
  reason TEXT,
  CONSTRAINT holdfast_switch_side CHECK (side IN ('primary', 'fallback')),
  CONSTRAINT holdfast_switch_two CHECK (primary_link <> fallback_link),
  CONSTRAINT holdfast_switch_flipped CHECK ((flipped_by IS NULL) = (flipped_us IS NULL))
);
CREATE INDEX holdfast_switch_primary ON holdfast_switch (primary_link);

-- Who did what by hand. A row is written in the transaction of the deed itself; work on many grows with each of its
-- transactions, so that everybody sees how far it has come.
CREATE TABLE holdfast_audit (
  id TEXT /* postgresql: COLLATE "C" */ PRIMARY KEY,
  at_us BIGINT NOT NULL,
  -- The door (console, command, api), who by the name that the door knows, and from where.
  actor_kind TEXT NOT NULL,
  actor TEXT NOT NULL,
  address TEXT NOT NULL DEFAULT '',
  verb TEXT NOT NULL,
  subject TEXT NOT NULL,
  reason TEXT,
  state TEXT NOT NULL,
  -- A sentence, or the code with which it was refused.
  result TEXT,
  total BIGINT,
  done BIGINT NOT NULL DEFAULT 0,
  refused BIGINT NOT NULL DEFAULT 0,
  touched_us BIGINT NOT NULL,
  -- Of work on many: what another process needs to go on with it, as JSON.
  work TEXT,
  CONSTRAINT holdfast_audit_actor_kind CHECK (actor_kind IN ('console', 'command', 'api')),
  CONSTRAINT holdfast_audit_state CHECK (state IN ('running', 'done', 'refused'))
);
