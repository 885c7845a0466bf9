-- The embedded store of runs: every change names the update time that it has read.

-- name: create
INSERT INTO holdfast_reports_run (run_id, document, summary, status, update_us, created_us, lease_until_us)
VALUES (:run_id, :document, :summary, :status, {now_us}, :created_us, :lease_until_us)
ON CONFLICT (run_id) DO NOTHING
RETURNING update_us, {now_us};

-- name: get
SELECT document, update_us, {now_us} FROM holdfast_reports_run WHERE run_id = :run_id;

-- name: patch
UPDATE holdfast_reports_run
   SET document = :document, summary = :summary, status = :status, lease_until_us = :lease_until_us,
       update_us = CASE WHEN {now_us} > update_us THEN {now_us} ELSE update_us + 1 END
 WHERE run_id = :run_id AND update_us = :update_us
RETURNING update_us, {now_us};

-- name: page
SELECT summary, created_us, run_id FROM holdfast_reports_run
 WHERE created_us < :before_us OR (created_us = :before_us AND run_id < :before_id)
 ORDER BY created_us DESC, run_id DESC LIMIT :count;

-- name: overdue
SELECT run_id, document, update_us, {now_us} FROM holdfast_reports_run
 WHERE lease_until_us <= {now_us} ORDER BY lease_until_us LIMIT :count;

-- name: define
INSERT INTO holdfast_reports_definition (kind, id, version, content, created_us)
VALUES (:kind, :id, :version, :content, {now_us})
ON CONFLICT (kind, id, version) DO NOTHING;

-- name: definition
SELECT version, content FROM holdfast_reports_definition
 WHERE kind = :kind AND id = :id AND (CAST(:version AS BIGINT) IS NULL OR version = :version)
 ORDER BY version DESC LIMIT 1;
