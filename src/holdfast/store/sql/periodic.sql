-- name: save
-- An unchanged schedule keeps its next firing, a changed one begins anew. A process that starts has the word
-- (:starting = 1); one that goes on vouches for its own, and has the word again where nobody vouches for another's.
INSERT INTO holdfast_periodic AS periodic (name, queue, kind, schedule, payload, due_us, vouched_us)
VALUES (:name, :queue, :kind, :schedule, :payload, :due_us, {now_us})
ON CONFLICT (name, queue, kind) DO UPDATE
   SET schedule = :schedule, payload = :payload, vouched_us = {now_us},
       due_us = CASE WHEN periodic.schedule = :schedule THEN periodic.due_us ELSE :due_us END
 WHERE :starting = 1
    OR (periodic.schedule = :schedule AND periodic.payload = :payload)
    OR periodic.vouched_us <= {now_us} - :silent_us;

-- name: forget
DELETE FROM holdfast_periodic WHERE vouched_us <= {now_us} - :kept_us;

-- name: due
SELECT periodic.name, periodic.queue, periodic.kind, schedule, payload, due_us, {now_us}
  FROM {given: name text, queue text, kind text}, holdfast_periodic AS periodic
 WHERE periodic.name = given.name AND periodic.queue = given.queue AND periodic.kind = given.kind
   AND due_us <= {now_us}
 ORDER BY due_us, periodic.name LIMIT :count;

-- name: fire
-- The process that moves the due time has fired it; zero rows mean that another process did.
UPDATE holdfast_periodic SET due_us = :next_us, fired_us = {now_us}
 WHERE name = :name AND queue = :queue AND kind = :kind AND due_us = :due_us RETURNING name;

-- name: next_due
SELECT min(due_us) - {now_us}
  FROM {given: name text, queue text, kind text}, holdfast_periodic AS periodic
 WHERE periodic.name = given.name AND periodic.queue = given.queue AND periodic.kind = given.kind;

-- name: list
SELECT name, schedule, queue, kind, payload, due_us, fired_us, vouched_us
  FROM holdfast_periodic ORDER BY name, queue, kind LIMIT :count;
