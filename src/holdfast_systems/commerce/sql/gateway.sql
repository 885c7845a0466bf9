-- Runs of the gateway. Every UPDATE names the state that it leaves and the attempt that it belongs to.

-- name: known
SELECT document, seen_us FROM holdfast_commerce_known_instance WHERE id = :id;

-- name: know
INSERT INTO holdfast_commerce_known_instance (id, document, seen_us) VALUES (:id, :document, {now_us})
ON CONFLICT (id) DO UPDATE SET document = excluded.document, seen_us = excluded.seen_us;

-- name: lock_instance
SELECT id FROM holdfast_commerce_known_instance WHERE id = :id /* postgresql: FOR UPDATE */;

-- name: open_gate
INSERT INTO holdfast_commerce_gate (name) VALUES (:name) ON CONFLICT (name) DO NOTHING;

-- name: lock_gate
SELECT name FROM holdfast_commerce_gate WHERE name = :name /* postgresql: FOR UPDATE */;

-- name: by_key
SELECT *, {now_us} AS now_us FROM holdfast_commerce_run WHERE key = :key;

-- name: by_id
SELECT *, {now_us} AS now_us FROM holdfast_commerce_run WHERE id = :id;

-- name: lock_run
SELECT *, {now_us} AS now_us FROM holdfast_commerce_run WHERE id = :id /* postgresql: FOR UPDATE */;

-- name: under_way
SELECT count(*), min(lease_until_us) - {now_us} FROM holdfast_commerce_run
 WHERE instance_id = :instance_id AND state IN ('authorizing', 'running') AND lease_until_us > {now_us};

-- name: deferred
SELECT count(*) FROM holdfast_commerce_run
 WHERE billing = 'deferred' AND state = 'running' AND lease_until_us > {now_us};

-- name: begin
INSERT INTO holdfast_commerce_run (id, key, tenant, instance_id, user_id, input, input_hash, state, billing, attempt, budget, lease_until_us, created_us)
VALUES (:id, :key, :tenant, :instance_id, :user_id, :input, :input_hash, 'authorizing', 'reserved', 1, :budget,
        {now_us} + CAST(:lease_us AS BIGINT), {now_us});

-- name: retry
UPDATE holdfast_commerce_run
   SET state = 'authorizing', billing = 'reserved', attempt = attempt + 1, budget = :budget, reservation_id = NULL,
       failure = NULL, lease_until_us = {now_us} + CAST(:lease_us AS BIGINT), ended_us = NULL
 WHERE id = :id AND attempt = :attempt AND state IN ('failed', 'refused');

-- name: start
UPDATE holdfast_commerce_run
   SET state = 'running', billing = :billing, reservation_id = :reservation_id, budget = :budget
 WHERE id = :id AND attempt = :attempt AND state = 'authorizing' AND lease_until_us > {now_us};

-- name: refuse
UPDATE holdfast_commerce_run SET state = 'refused', failure = :failure, lease_until_us = NULL, ended_us = {now_us}
 WHERE id = :id AND attempt = :attempt AND state = 'authorizing';

-- name: fail
UPDATE holdfast_commerce_run SET state = 'failed', failure = :failure, lease_until_us = NULL, ended_us = {now_us}
 WHERE id = :id AND attempt = :attempt AND state IN ('authorizing', 'running');

-- name: interrupt
UPDATE holdfast_commerce_run SET state = 'interrupted', failure = :failure, lease_until_us = NULL, ended_us = {now_us}
 WHERE id = :id AND attempt = :attempt AND state = 'running';

-- name: answer
UPDATE holdfast_commerce_run
   SET state = 'answered', output = :output, credits = :credits, ended_us = {now_us},
       lease_until_us = {now_us} + CAST(:lease_us AS BIGINT)
 WHERE id = :id AND attempt = :attempt AND state = 'running';

-- name: settle
UPDATE holdfast_commerce_run
   SET state = 'settled', reservation_id = :reservation_id, charged = :charged, ledger_entry_id = :ledger_entry_id,
       lease_until_us = NULL
 WHERE id = :id AND attempt = :attempt AND state = 'answered';

-- name: write_off
UPDATE holdfast_commerce_run SET state = 'written_off', charged = 0, failure = :failure, lease_until_us = NULL
 WHERE id = :id AND attempt = :attempt AND state = 'answered';

-- name: postpone
-- A job settles it; the sweep looks again after this, in case the job was lost.
UPDATE holdfast_commerce_run SET lease_until_us = {now_us} + CAST(:lease_us AS BIGINT)
 WHERE id = :id AND attempt = :attempt AND state = 'answered';

-- name: overdue
SELECT id FROM holdfast_commerce_run WHERE lease_until_us <= {now_us} ORDER BY lease_until_us LIMIT :count;

-- name: page
SELECT id, user_id, state, billing, credits, charged, ledger_entry_id, failure, created_us, ended_us
  FROM holdfast_commerce_run
 WHERE instance_id = :instance_id AND tenant = :tenant AND (CAST(:before AS TEXT) IS NULL OR id < :before)
 ORDER BY id DESC LIMIT :count;

-- name: prune
-- Ids begin with the time at which they were made. What is still to be charged stays, however old it is.
DELETE FROM holdfast_commerce_run
 WHERE id IN (SELECT id FROM holdfast_commerce_run
               WHERE id < :floor AND state IN ('settled', 'written_off', 'refused', 'failed', 'interrupted')
               ORDER BY id LIMIT :count);
