-- The audit: who did what by hand, through which door, from where, and what came of it.

-- name: write
INSERT INTO holdfast_audit (id, at_us, actor_kind, actor, address, verb, subject, reason, state, result, done, work,
                            touched_us)
VALUES (:id, {now_us}, :actor_kind, :actor, :address, :verb, :subject, :reason, :state, :result, :done, :work,
        {now_us})
ON CONFLICT (id) DO NOTHING;

-- name: progress
UPDATE holdfast_audit SET done = done + :done, refused = refused + :refused, touched_us = {now_us}
 WHERE id = :id AND state = 'running';

-- name: counted
UPDATE holdfast_audit SET total = :total, touched_us = {now_us} WHERE id = :id AND state = 'running';

-- name: ended
UPDATE holdfast_audit SET state = :state, result = :result, touched_us = {now_us} WHERE id = :id AND state = 'running';

-- name: take_over
-- Work that has not moved for a while is taken over by one process: the next one finds it touched.
UPDATE holdfast_audit SET state = 'running', result = '', touched_us = {now_us}
 WHERE id = :id AND work IS NOT NULL
   AND (state = 'refused' OR (state = 'running' AND touched_us < {now_us} - :silent_us))
RETURNING id;

-- name: show
SELECT id, at_us, actor_kind, actor, address, verb, subject, reason, state, result, total, done, refused, touched_us,
       work
  FROM holdfast_audit WHERE id = :id;

-- name: list
-- Ids begin with the time, so the span of ids bounds the walk; the time itself is the database's.
SELECT id, at_us, actor_kind, actor, address, verb, subject, reason, state, result, total, done, refused, touched_us,
       work
  FROM holdfast_audit
 WHERE id < :before AND id >= :since AND at_us >= :since_us AND at_us < :until_us
   AND (CAST(:who AS TEXT) IS NULL OR actor = :who) AND (CAST(:kind AS TEXT) IS NULL OR actor_kind = :kind)
   AND (CAST(:verb AS TEXT) IS NULL OR verb = :verb)
   AND (CAST(:subject AS TEXT) IS NULL OR substr(subject, 1, length(:subject)) = :subject)
 ORDER BY id DESC LIMIT :count;

-- name: prune
-- Of the oldest `count`, the rows that were kept long enough. Ids begin with the time, so nothing behind them is older.
DELETE FROM holdfast_audit
 WHERE id IN (SELECT id FROM (SELECT id, at_us FROM holdfast_audit ORDER BY id LIMIT :count) AS oldest
               WHERE at_us < {now_us} - :older_us);
