-- name: register
INSERT INTO queue (name) VALUES (:name) ON CONFLICT (name) DO NOTHING;

-- name: pause
INSERT INTO queue (name, paused_us, paused_reason) VALUES (:name, {now_us}, :reason)
ON CONFLICT (name) DO UPDATE SET paused_us = COALESCE(queue.paused_us, {now_us}), paused_reason = :reason;

-- name: resume
UPDATE queue SET paused_us = NULL, paused_reason = NULL WHERE name = :name AND paused_us IS NOT NULL RETURNING name;

-- name: note
-- What happened to a queue or a breaker, in the journal.
INSERT INTO journal (at_us, subject, verb, queue, reason) VALUES ({now_us}, :subject, :verb, :queue, :reason);
