-- Breakers shared by all processes. Every move names the state it leaves.

-- name: look
SELECT state, until_us - {now_us}, probes_left, generation, {now_us} - opened_us FROM holdfast_breaker WHERE name = :name /* postgresql: FOR UPDATE */;

-- name: count
INSERT INTO holdfast_breaker_count AS breaker_count (name, slice_us, calls, failures)
VALUES (:name, {now_us} / :slice_us * :slice_us, :calls, :failures)
ON CONFLICT (name, slice_us) DO UPDATE
   SET calls = breaker_count.calls + EXCLUDED.calls, failures = breaker_count.failures + EXCLUDED.failures;

-- name: counts
SELECT COALESCE(sum(calls), 0), COALESCE(sum(failures), 0) FROM holdfast_breaker_count
 WHERE name = :name AND slice_us > {now_us} - :window_us;

-- name: forget
DELETE FROM holdfast_breaker_count WHERE name = :name AND slice_us <= {now_us} - :older_us;

-- name: ready
-- Whether one of these queues has a job that could be tried now.
SELECT 1 FROM holdfast_job AS job
 WHERE job.state = 'queued' AND job.queue {among: queues} AND job.lane IN ('ready', 'alone')
   AND NOT EXISTS (SELECT 1 FROM holdfast_queue AS queue WHERE queue.name = job.queue AND queue.paused_us IS NOT NULL)
 LIMIT 1;

-- name: trip
INSERT INTO holdfast_breaker AS breaker (name, state, mode, reason, opened_us, until_us, generation)
VALUES (:name, 'open', :mode, :reason, {now_us}, {now_us} + :open_us, 1)
ON CONFLICT (name) DO UPDATE
   SET state = 'open', mode = EXCLUDED.mode, reason = EXCLUDED.reason,
       opened_us = COALESCE(breaker.opened_us, EXCLUDED.opened_us), until_us = EXCLUDED.until_us,
       probes_left = 0, probes_good = 0, generation = breaker.generation + 1
 WHERE breaker.state <> 'open'
RETURNING generation;

-- name: hold_on
-- The health probe still says no: look again after the next pause.
UPDATE holdfast_breaker SET until_us = {now_us} + :open_us WHERE name = :name AND state = 'open' RETURNING name;

-- name: probe
-- A new round of probes; one that never reported is replaced when its time is up. What has succeeded so far stays, or
-- little traffic would never close it.
UPDATE holdfast_breaker
   SET state = 'half_open', until_us = {now_us} + :probe_us, generation = generation + 1,
       probes_left = :probes - CASE WHEN state = 'open' THEN 0 ELSE probes_good END,
       probes_good = CASE WHEN state = 'open' THEN 0 ELSE probes_good END
 WHERE name = :name AND (state = 'open' OR (state = 'half_open' AND until_us <= {now_us}))
RETURNING generation, probes_left;

-- name: allow_one
-- By hand: one more job is let through to test.
UPDATE holdfast_breaker
   SET state = 'half_open', probes_left = probes_left + 1, until_us = {now_us} + :open_us,
       generation = CASE WHEN state = 'open' THEN generation + 1 ELSE generation END
 WHERE name = :name AND state <> 'closed'
RETURNING generation;

-- name: spend
-- The last probe of a round has its whole time as well.
UPDATE holdfast_breaker SET probes_left = probes_left - :probes, until_us = {now_us} + :probe_us
 WHERE name = :name AND state = 'half_open' AND probes_left >= :probes RETURNING generation;

-- name: succeed
UPDATE holdfast_breaker SET probes_good = probes_good + :probes
 WHERE name = :name AND state = 'half_open' AND generation = :generation RETURNING probes_good;

-- name: give_back
UPDATE holdfast_breaker SET probes_left = probes_left + :probes
 WHERE name = :name AND state = 'half_open' AND generation = :generation RETURNING name;

-- name: recover
UPDATE holdfast_breaker
   SET state = 'closed', reason = NULL, opened_us = NULL, until_us = NULL, probes_left = 0, probes_good = 0,
       generation = generation + 1
 WHERE name = :name AND state = 'half_open' AND generation = :generation
RETURNING name;

-- name: mode
SELECT state, mode FROM holdfast_breaker WHERE name = :name /* postgresql: FOR UPDATE */;

-- name: recover_by_hand
-- By hand, from whichever state it stands in.
UPDATE holdfast_breaker
   SET state = 'closed', reason = NULL, opened_us = NULL, until_us = NULL, probes_left = 0, probes_good = 0,
       generation = generation + 1
 WHERE name = :name AND state <> 'closed'
RETURNING name;
