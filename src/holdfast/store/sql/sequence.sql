-- Sequences: jobs of one name run one after the other, in the order of their positions. Only the head of a sequence may
-- be claimed; the others are in the lane `blocked`, and whatever ends the head unblocks the next one in its transaction.
-- Scalar sub-selects keep every question a look-up by name, whatever the planner's statistics say.

-- name: reserve
-- The last of `count` new positions of each sequence. Its row stays locked until the transaction ends: those that add
-- to a sequence at the same time do so one after the other.
INSERT INTO holdfast_job_sequence AS known (name, position, used_us)
SELECT given.name, given.count, {now_us} FROM {given: name text, count bigint} WHERE true
ON CONFLICT (name) DO UPDATE SET position = known.position + excluded.position, used_us = excluded.used_us
RETURNING name, position;

-- name: join
-- Jobs that were inserted in this transaction. After a lost reply they may be there already: those are left alone.
UPDATE holdfast_job AS job SET sequence = given.name, sequence_position = given.position, lane = 'blocked'
  FROM {given: id text, name text, position bigint}
 WHERE job.id = given.id AND job.sequence IS NULL AND job.state || '' = 'queued';

-- name: rejoin
-- Jobs that were revived in this transaction: they come after all that wait.
UPDATE holdfast_job AS job SET sequence_position = given.position, lane = 'blocked'
  FROM {given: id text, name text, position bigint}
 WHERE job.id = given.id AND job.sequence = given.name AND job.state || '' = 'queued';

-- name: of_jobs
SELECT id, sequence FROM holdfast_job WHERE id {among: ids} AND sequence IS NOT NULL ORDER BY sequence_position, id;

-- name: next
-- After the end of a head: unblock the one behind it. It is looked for beyond the position of the head, so that rows that
-- ended before and are not vacuumed yet cost nothing.
UPDATE holdfast_job
   SET lane = CASE WHEN due_us > {now_us} THEN 'waiting' WHEN pardon_count > 2 THEN 'alone' ELSE 'ready' END
 WHERE id /* postgresql: = ANY(ARRAY( */ /* sqlite: IN ( */
       SELECT (SELECT behind.id FROM holdfast_job AS behind
                WHERE behind.sequence = given.name AND behind.sequence_position > given.position
                  AND behind.state = 'queued' AND behind.lane = 'blocked'
                ORDER BY behind.sequence_position LIMIT 1)
         FROM {given: name text, position bigint} /* postgresql: )) */ /* sqlite: ) */
   AND state || '' = 'queued' AND lane = 'blocked';

-- name: lock
-- Those whose row nobody else has locked.
SELECT name FROM holdfast_job_sequence WHERE name {among: names} ORDER BY name /* postgresql: FOR UPDATE SKIP LOCKED */;

-- name: start
-- Unblock the first job of each sequence that has no head. The caller has locked the rows of the sequences.
UPDATE holdfast_job
   SET lane = CASE WHEN due_us > {now_us} THEN 'waiting' WHEN pardon_count > 2 THEN 'alone' ELSE 'ready' END
 WHERE id /* postgresql: = ANY(ARRAY( */ /* sqlite: IN ( */
       SELECT (SELECT behind.id FROM holdfast_job AS behind
                WHERE behind.sequence = known.name AND behind.state = 'queued' AND behind.lane = 'blocked'
                ORDER BY behind.sequence_position LIMIT 1)
         FROM holdfast_job_sequence AS known
        WHERE known.name {among: names}
          AND (SELECT 1 FROM holdfast_job AS head
                WHERE head.sequence = known.name AND head.state IN ('queued', 'processing')
                  AND head.lane <> 'blocked' LIMIT 1) IS NULL /* postgresql: )) */ /* sqlite: ) */
   AND state || '' = 'queued' AND lane = 'blocked'
RETURNING sequence, queue;

-- name: stalled
-- Which of these sequences have jobs and no head.
SELECT known.name FROM holdfast_job_sequence AS known
 WHERE known.name {among: names}
   AND (SELECT 1 FROM holdfast_job AS behind
         WHERE behind.sequence = known.name AND behind.state = 'queued' AND behind.lane = 'blocked' LIMIT 1) IS NOT NULL
   AND (SELECT 1 FROM holdfast_job AS head
         WHERE head.sequence = known.name AND head.state IN ('queued', 'processing')
           AND head.lane <> 'blocked' LIMIT 1) IS NULL;

-- name: waiting
-- The names of sequences with blocked jobs, one step in the index from each to the next: their number of jobs does not
-- matter.
WITH RECURSIVE waiting(name) AS (
  SELECT (SELECT min(sequence) FROM holdfast_job WHERE state = 'queued' AND lane = 'blocked' AND sequence > :after)
  UNION ALL
  SELECT (SELECT min(job.sequence) FROM holdfast_job AS job
           WHERE job.state = 'queued' AND job.lane = 'blocked' AND job.sequence > waiting.name)
    FROM waiting WHERE waiting.name IS NOT NULL
)
SELECT name FROM waiting WHERE name IS NOT NULL LIMIT :count;

-- name: prune
-- Sequences that have not been used for a while and have no job left to run; positions begin at one again.
DELETE FROM holdfast_job_sequence
 WHERE name /* postgresql: = ANY(ARRAY( */ /* sqlite: IN ( */
       SELECT known.name FROM holdfast_job_sequence AS known
        WHERE known.used_us < {now_us} - :older_us
          AND (SELECT 1 FROM holdfast_job AS behind
                WHERE behind.sequence = known.name AND behind.state = 'queued' AND behind.lane = 'blocked' LIMIT 1) IS NULL
          AND (SELECT 1 FROM holdfast_job AS head
                WHERE head.sequence = known.name AND head.state IN ('queued', 'processing')
                  AND head.lane <> 'blocked' LIMIT 1) IS NULL
        ORDER BY known.used_us LIMIT :count /* postgresql: FOR UPDATE SKIP LOCKED )) */ /* sqlite: ) */;
