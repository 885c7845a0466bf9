-- name: register
INSERT INTO holdfast_worker (id, host, process, queues, started_us, seen_us, lease_until_us)
VALUES (:id, :host, :process, :queues, {now_us}, {now_us}, {now_us} + :lease_us);

-- name: renew
-- A lease that has run out is renewed too, as long as no other worker has taken the jobs. Zero rows: one has.
UPDATE holdfast_worker SET seen_us = {now_us}, lease_until_us = {now_us} + :lease_us WHERE id = :id RETURNING id;

-- name: leave
-- Not while it holds a job: without this row nobody would ever take the job back.
DELETE FROM holdfast_worker WHERE id = :id AND NOT EXISTS (SELECT 1 FROM holdfast_job AS job WHERE job.lease_owner = :id);

-- name: gone
-- Who holds jobs without being registered: it was swept away in the moment of its last claim.
SELECT DISTINCT job.lease_owner FROM holdfast_job AS job
 WHERE job.lease_owner IS NOT NULL AND NOT EXISTS (SELECT 1 FROM holdfast_worker AS worker WHERE worker.id = job.lease_owner)
 LIMIT :count;

-- name: expired
-- Never the one that asks: it lives.
SELECT id FROM holdfast_worker WHERE lease_until_us <= {now_us} AND id <> :asking ORDER BY lease_until_us LIMIT :count
/* postgresql: FOR UPDATE SKIP LOCKED */;

-- name: others
-- How many there are besides this one, and how many of them are certainly alive.
SELECT count(*), COALESCE(sum(CASE WHEN lease_until_us > {now_us} THEN 1 ELSE 0 END), 0)
  FROM holdfast_worker WHERE id <> :id;

-- name: look
-- Whether there is anything to sweep: an expired worker, how soon a waiting job is due, a cancel for one of ours, a job
-- that nobody has seen yet, and one that is blocked by another. The time is that by which leases are judged.
SELECT {now_us},
       EXISTS (SELECT 1 FROM holdfast_worker WHERE lease_until_us <= {now_us} AND id <> :owner),
       (SELECT min(due_us) - {now_us} FROM holdfast_job WHERE state = 'queued' AND lane = 'waiting'),
       EXISTS (SELECT 1 FROM holdfast_job WHERE lease_owner = :owner AND cancel_us IS NOT NULL),
       EXISTS (SELECT 1 FROM holdfast_job
                WHERE token < 0 AND (lane = 'waiting' OR created_us <= {now_us} - :left_us)),
       EXISTS (SELECT 1 FROM holdfast_job WHERE state = 'queued' AND lane = 'blocked' AND sequence > '');

-- name: list
SELECT id, host, process, queues, started_us, seen_us, lease_until_us,
       (SELECT count(*) FROM holdfast_job AS job WHERE job.lease_owner = worker.id) AS held
  FROM holdfast_worker AS worker ORDER BY started_us, id;
