-- Numbers that all processes add to. Rows are added in one order, so that two processes never wait crosswise.

-- name: begin
-- The batch, if it was not added before; no row when it was.
INSERT INTO holdfast_metric_flush AS metric_flush (process, sequence, seen_us) VALUES (:process, :sequence, {now_us})
ON CONFLICT (process) DO UPDATE SET sequence = EXCLUDED.sequence, seen_us = EXCLUDED.seen_us
 WHERE metric_flush.sequence < EXCLUDED.sequence
RETURNING sequence;

-- name: add_totals
INSERT INTO holdfast_metric_total AS metric_total (name, labels, value, seen_us)
SELECT name, labels, value, {now_us} FROM {given: name text, labels text, value float8} WHERE TRUE ORDER BY name, labels
ON CONFLICT (name, labels) DO UPDATE SET value = metric_total.value + EXCLUDED.value, seen_us = EXCLUDED.seen_us;

-- name: add_slices
INSERT INTO holdfast_metric_slice AS metric_slice (width_s, name, slice_us, labels, value)
SELECT :width_s, name, {now_us} / :width_us * :width_us, labels, value
  FROM {given: name text, labels text, value float8} WHERE TRUE ORDER BY name, labels
ON CONFLICT (width_s, name, slice_us, labels) DO UPDATE SET value = metric_slice.value + EXCLUDED.value;

-- name: add_samples
-- A gauge at a moment; of several in one slice the highest is kept.
INSERT INTO holdfast_metric_slice AS metric_slice (width_s, name, slice_us, labels, value)
SELECT :width_s, name, {now_us} / :width_us * :width_us, labels, value
  FROM {given: name text, labels text, value float8} WHERE TRUE ORDER BY name, labels
ON CONFLICT (width_s, name, slice_us, labels) DO UPDATE SET value = EXCLUDED.value
 WHERE EXCLUDED.value > metric_slice.value;

-- name: totals
SELECT name, labels, value FROM holdfast_metric_total ORDER BY name, labels LIMIT :most;

-- name: series
-- Each series once: what belongs to a histogram is known by its count.
SELECT name, labels FROM holdfast_metric_total WHERE name NOT LIKE '%\_bucket' ESCAPE '\' AND name NOT LIKE '%\_sum' ESCAPE '\';

-- name: increases
-- Every slice that the window touches, whatever its width; none that begins before `after_us` can do so.
SELECT labels, sum(value) FROM holdfast_metric_slice
 WHERE width_s IN (10, 30, 60, 300, 3600) AND name = :name AND slice_us > :after_us AND slice_us < :until_us
   AND slice_us + CAST(width_s AS BIGINT) * 1000000 > :since_us GROUP BY labels;

-- name: points
SELECT slice_us / :step_us * :step_us AS at_us, labels, sum(value), max(value) FROM holdfast_metric_slice
 WHERE width_s IN (10, 30, 60, 300, 3600) AND name = :name AND slice_us >= :since_us AND slice_us < :until_us
 GROUP BY slice_us / :step_us * :step_us, labels;

-- name: sums
-- As `points`, for callers that do not need the labels.
SELECT slice_us / :step_us * :step_us AS at_us, sum(value) FROM holdfast_metric_slice
 WHERE width_s IN (10, 30, 60, 300, 3600) AND name = :name AND slice_us >= :since_us AND slice_us < :until_us
 GROUP BY slice_us / :step_us * :step_us;

-- name: live_gauges
-- What processes say of themselves that were heard of lately.
SELECT metric_gauge.name, metric_gauge.labels, metric_gauge.value
  FROM holdfast_metric_flush AS metric_flush JOIN holdfast_metric_gauge AS metric_gauge ON metric_gauge.process = metric_flush.process
 WHERE metric_flush.seen_us > {now_us} - :alive_us
 ORDER BY metric_gauge.name, metric_gauge.labels LIMIT :most;

-- name: set_gauges
INSERT INTO holdfast_metric_gauge (process, name, labels, value)
SELECT :process, name, labels, value FROM {given: name text, labels text, value float8} WHERE TRUE
ON CONFLICT (process, name, labels) DO UPDATE SET value = EXCLUDED.value;

-- name: drop_gauges
DELETE FROM holdfast_metric_gauge WHERE process = :process;

-- name: seen
UPDATE holdfast_metric_flush SET seen_us = {now_us} WHERE process = :process;

-- name: dead
-- Of each queue with dead letters: how many, and how many of them are webhooks that were to be delivered, in all and of
-- late. One step in the index from queue to queue, and bounded: what is more than `most` is counted no further.
WITH RECURSIVE dead(queue) AS (
  SELECT (SELECT min(job.queue) FROM holdfast_job AS job WHERE job.state = 'failed')
  UNION ALL
  SELECT (SELECT min(job.queue) FROM holdfast_job AS job WHERE job.state = 'failed' AND job.queue > dead.queue)
    FROM dead WHERE dead.queue IS NOT NULL
)
SELECT queue,
       (SELECT count(*) FROM (SELECT 1 FROM holdfast_job AS job WHERE job.state = 'failed' AND job.queue = dead.queue
                               LIMIT :most) AS counted),
       (SELECT count(*) FROM (SELECT job.id FROM holdfast_job AS job WHERE job.state = 'failed'
                                 AND job.queue = dead.queue LIMIT :most) AS counted
         WHERE EXISTS (SELECT 1 FROM holdfast_webhook_delivery AS delivery WHERE delivery.job_id = counted.id)),
       (SELECT count(*) FROM (SELECT job.id FROM holdfast_job AS job WHERE job.state = 'failed'
                                 AND job.queue = dead.queue AND job.failed_us >= {now_us} - :lately_us
                               LIMIT :most) AS lately
         WHERE EXISTS (SELECT 1 FROM holdfast_webhook_delivery AS delivery WHERE delivery.job_id = lately.id))
  FROM dead WHERE queue IS NOT NULL LIMIT :queues;

-- name: take_turn
-- One process does it, and no process does it again before the time is over.
INSERT INTO holdfast_metric_turn AS metric_turn (name, taken_us) VALUES (:name, {now_us})
ON CONFLICT (name) DO UPDATE SET taken_us = EXCLUDED.taken_us
 WHERE metric_turn.taken_us <= EXCLUDED.taken_us - :every_us OR metric_turn.taken_us > EXCLUDED.taken_us
RETURNING name;

-- name: take_slices
-- The oldest slices of a level that are old enough, whole ones, about `count` rows.
DELETE FROM holdfast_metric_slice
 WHERE width_s = :width_s AND slice_us < :before_us AND slice_us <= (
       SELECT max(slice_us) FROM (
         SELECT slice_us FROM holdfast_metric_slice WHERE width_s = :width_s AND slice_us < :before_us
          ORDER BY slice_us LIMIT :count) AS oldest)
RETURNING name, slice_us, labels, value;

-- name: fold_counted
INSERT INTO holdfast_metric_slice AS metric_slice (width_s, name, slice_us, labels, value)
SELECT :width_s, name, slice_us, labels, value
  FROM {given: name text, slice_us bigint, labels text, value float8} WHERE TRUE ORDER BY name, slice_us, labels
ON CONFLICT (width_s, name, slice_us, labels) DO UPDATE SET value = metric_slice.value + EXCLUDED.value;

-- name: fold_sampled
-- Of several samples of a gauge the highest is kept.
INSERT INTO holdfast_metric_slice AS metric_slice (width_s, name, slice_us, labels, value)
SELECT :width_s, name, slice_us, labels, value
  FROM {given: name text, slice_us bigint, labels text, value float8} WHERE TRUE ORDER BY name, slice_us, labels
ON CONFLICT (width_s, name, slice_us, labels) DO UPDATE SET value = EXCLUDED.value
 WHERE EXCLUDED.value > metric_slice.value;

-- name: prune_slices
DELETE FROM holdfast_metric_slice
 WHERE width_s = :width_s AND slice_us < {now_us} - :older_us AND slice_us <= (
       SELECT max(slice_us) FROM (
         SELECT slice_us FROM holdfast_metric_slice WHERE width_s = :width_s AND slice_us < {now_us} - :older_us
          ORDER BY slice_us LIMIT :count) AS oldest);

-- name: prune_totals
DELETE FROM holdfast_metric_total WHERE seen_us < {now_us} - :older_us;

-- name: prune_gauges
DELETE FROM holdfast_metric_gauge WHERE process IN (SELECT process FROM holdfast_metric_flush WHERE seen_us < {now_us} - :older_us);

-- name: prune_flushes
DELETE FROM holdfast_metric_flush WHERE seen_us < {now_us} - :older_us;
