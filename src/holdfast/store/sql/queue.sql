-- name: register
INSERT INTO holdfast_queue (name) VALUES (:name) ON CONFLICT (name) DO NOTHING;

-- name: pause
INSERT INTO holdfast_queue AS queue (name, paused_us, paused_reason) VALUES (:name, {now_us}, :reason)
ON CONFLICT (name) DO UPDATE SET paused_us = COALESCE(queue.paused_us, {now_us}), paused_reason = :reason;

-- name: resume
UPDATE holdfast_queue SET paused_us = NULL, paused_reason = NULL WHERE name = :name AND paused_us IS NOT NULL RETURNING name;

-- name: note
-- What happened to a queue or a breaker, in the journal.
INSERT INTO holdfast_journal (at_us, subject, verb, queue, reason) VALUES ({now_us}, :subject, :verb, :queue, :reason);

-- name: registered
SELECT name, paused_us, paused_reason FROM holdfast_queue ORDER BY name LIMIT :most;

-- name: heads
-- The first job of each queue, lane and priority, one step in the index from each to the next: the number of jobs
-- does not matter.
WITH RECURSIVE head(id) AS (
  SELECT (SELECT id FROM holdfast_job AS job WHERE state = 'queued' ORDER BY queue, lane, priority, due_us, id LIMIT 1)
  UNION ALL
  SELECT (SELECT following.id FROM holdfast_job AS following
           WHERE following.state = 'queued'
             AND (following.queue, following.lane, following.priority) > (job.queue, job.lane, job.priority)
           ORDER BY following.queue, following.lane, following.priority, following.due_us, following.id LIMIT 1)
    FROM head JOIN holdfast_job AS job ON job.id = head.id
)
SELECT job.queue, job.lane, job.due_us FROM head JOIN holdfast_job AS job ON job.id = head.id LIMIT :most;

-- name: depth
-- Bounded: a lane deeper than `most` is counted no further.
SELECT (SELECT count(*) FROM (SELECT 1 FROM holdfast_job WHERE state = 'queued' AND queue = :name AND lane = 'ready'
                               LIMIT :most) AS ready),
       (SELECT count(*) FROM (SELECT 1 FROM holdfast_job WHERE state = 'queued' AND queue = :name AND lane = 'alone'
                               LIMIT :most) AS alone),
       (SELECT count(*) FROM (SELECT 1 FROM holdfast_job WHERE state = 'queued' AND queue = :name AND lane = 'waiting'
                               LIMIT :most) AS waiting),
       (SELECT count(*) FROM (SELECT 1 FROM holdfast_job WHERE state = 'queued' AND queue = :name AND lane = 'blocked'
                               LIMIT :most) AS blocked);

-- name: processing
SELECT queue, count(*) FROM holdfast_job WHERE lease_owner IS NOT NULL GROUP BY queue;

-- name: workers
-- The queues of each worker whose lease holds, as one text each.
SELECT queues FROM holdfast_worker WHERE lease_until_us > {now_us} LIMIT :most;

-- name: breakers
SELECT name, state, mode, reason, opened_us, until_us FROM holdfast_breaker ORDER BY (state = 'closed'), name LIMIT :most;

-- name: known
SELECT 1 WHERE EXISTS (SELECT 1 FROM holdfast_queue WHERE name = :name)
            OR EXISTS (SELECT 1 FROM holdfast_breaker WHERE name = :name)
            OR EXISTS (SELECT 1 FROM holdfast_job WHERE state = 'queued' AND queue = :name);
