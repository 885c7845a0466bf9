-- The gateway: every run from the request to its charge, and what it last heard about each instance.

-- A run holds its place until `lease_until_us`; after that its process is taken for dead, and a job ends it.
CREATE TABLE holdfast_commerce_run (
  id TEXT PRIMARY KEY,
  key TEXT NOT NULL,
  tenant TEXT NOT NULL,
  instance_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  input TEXT NOT NULL,
  input_hash TEXT NOT NULL,
  state TEXT NOT NULL,
  billing TEXT NOT NULL,
  attempt BIGINT NOT NULL,
  budget BIGINT NOT NULL,
  reservation_id TEXT,
  output TEXT,
  credits BIGINT,
  charged BIGINT,
  ledger_entry_id TEXT,
  failure TEXT,
  lease_until_us BIGINT,
  created_us BIGINT NOT NULL,
  ended_us BIGINT,
  CONSTRAINT holdfast_commerce_run_key UNIQUE (key),
  CONSTRAINT holdfast_commerce_run_state CHECK (
    state IN ('authorizing', 'running', 'answered', 'settled', 'written_off', 'refused', 'failed', 'interrupted')),
  CONSTRAINT holdfast_commerce_run_billing CHECK (billing IN ('reserved', 'deferred')),
  CONSTRAINT holdfast_commerce_run_amounts CHECK (attempt >= 1 AND budget > 0 AND (credits IS NULL OR credits BETWEEN 0 AND budget)),
  CONSTRAINT holdfast_commerce_run_output CHECK (
    (state IN ('answered', 'settled', 'written_off')) = (output IS NOT NULL)
    AND (output IS NULL) = (credits IS NULL)),
  CONSTRAINT holdfast_commerce_run_charged CHECK (
    (state IN ('settled', 'written_off')) = (charged IS NOT NULL)
    AND (state = 'settled') = (ledger_entry_id IS NOT NULL)
    AND (state <> 'written_off' OR charged = 0)
    AND (charged IS NULL OR charged BETWEEN 0 AND credits)),
  CONSTRAINT holdfast_commerce_run_failure CHECK (
    (state IN ('written_off', 'refused', 'failed', 'interrupted')) = (failure IS NOT NULL)),
  CONSTRAINT holdfast_commerce_run_lease CHECK (
    (state IN ('authorizing', 'running', 'answered')) = (lease_until_us IS NOT NULL)),
  CONSTRAINT holdfast_commerce_run_ended CHECK ((state IN ('authorizing', 'running')) = (ended_us IS NULL))
);
CREATE INDEX holdfast_commerce_run_instance ON holdfast_commerce_run (instance_id, id);
CREATE INDEX holdfast_commerce_run_under_way ON holdfast_commerce_run (instance_id) WHERE state IN ('authorizing', 'running');
CREATE INDEX holdfast_commerce_run_leased ON holdfast_commerce_run (lease_until_us) WHERE lease_until_us IS NOT NULL;
CREATE INDEX holdfast_commerce_run_deferred ON holdfast_commerce_run (billing) WHERE billing = 'deferred' AND state = 'running';

-- What the control plane said last about an instance: it serves while the control plane is away, and its row is
-- locked while a run begins, so that runs of one instance are counted one after the other.
CREATE TABLE holdfast_commerce_known_instance (
  id TEXT PRIMARY KEY,
  document TEXT NOT NULL,
  seen_us BIGINT NOT NULL
);

-- One row that is locked while runs are counted that are billed later.
CREATE TABLE holdfast_commerce_gate (
  name TEXT PRIMARY KEY
);
