-- Runs as documents, and the prompts and schemas that they name.

CREATE TABLE holdfast_reports_run (
  run_id TEXT /* postgresql: COLLATE "C" */ NOT NULL PRIMARY KEY,
  document TEXT NOT NULL,
  -- What lists show: the document without the inputs of its steps.
  summary TEXT NOT NULL,
  status TEXT NOT NULL,
  -- The precondition of every change: it ascends with each of them.
  update_us BIGINT NOT NULL,
  created_us BIGINT NOT NULL,
  -- When the first lease of a running step ends.
  lease_until_us BIGINT,
  CONSTRAINT holdfast_reports_run_status CHECK (status IN ('RUNNING', 'SUCCEEDED', 'FAILED'))
);
CREATE INDEX holdfast_reports_run_created ON holdfast_reports_run (created_us, run_id);
CREATE INDEX holdfast_reports_run_lease ON holdfast_reports_run (lease_until_us) WHERE lease_until_us IS NOT NULL;

-- Versions are never changed; the newest counts for new runs.
CREATE TABLE holdfast_reports_definition (
  kind TEXT NOT NULL,
  id TEXT /* postgresql: COLLATE "C" */ NOT NULL,
  version BIGINT NOT NULL,
  content TEXT NOT NULL,
  created_us BIGINT NOT NULL,
  PRIMARY KEY (kind, id, version),
  CONSTRAINT holdfast_reports_definition_kind CHECK (kind IN ('prompt', 'schema')),
  CONSTRAINT holdfast_reports_definition_version CHECK (version >= 1)
);
