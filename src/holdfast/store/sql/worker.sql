-- name: register
INSERT INTO worker (id, host, process, queues, started_us, seen_us, lease_until_us)
VALUES (:id, :host, :process, :queues, {now_us}, {now_us}, {now_us} + :lease_us);

-- name: renew
-- Zero rows: the lease ran out and somebody has swept this worker away.
UPDATE worker SET seen_us = {now_us}, lease_until_us = {now_us} + :lease_us
 WHERE id = :id AND lease_until_us > {now_us}
RETURNING id;

-- name: leave
-- Not while it holds a job: without this row nobody would ever take the job back.
DELETE FROM worker WHERE id = :id AND NOT EXISTS (SELECT 1 FROM job WHERE job.lease_owner = :id);

-- name: gone
-- Who holds jobs without being registered: it was swept away in the moment of its last claim.
SELECT DISTINCT job.lease_owner FROM job
 WHERE job.lease_owner IS NOT NULL AND NOT EXISTS (SELECT 1 FROM worker WHERE worker.id = job.lease_owner)
 LIMIT :count;

-- name: expired
SELECT id FROM worker WHERE lease_until_us <= {now_us} ORDER BY lease_until_us LIMIT :count
/* postgresql: FOR UPDATE SKIP LOCKED */;

-- name: look
-- Whether there is anything to sweep: an expired worker, how soon a waiting job is due, a cancel for one of ours.
SELECT EXISTS (SELECT 1 FROM worker WHERE lease_until_us <= {now_us}),
       (SELECT min(due_us) - {now_us} FROM job WHERE state = 'queued' AND lane = 'waiting'),
       EXISTS (SELECT 1 FROM job WHERE lease_owner = :owner AND cancel_us IS NOT NULL);

-- name: list
SELECT id, host, process, queues, started_us, seen_us, lease_until_us,
       (SELECT count(*) FROM job WHERE job.lease_owner = worker.id) AS held
  FROM worker ORDER BY started_us, id;
