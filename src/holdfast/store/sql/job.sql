-- Jobs. Claims and settlements are look-ups by id, whatever the planner's statistics say: `{among: …}` and a scalar
-- sub-select keep them so, and a test of the plans guards it.

-- name: enqueue
-- A time that was given as such is the database's; one that is over counts as now, so that nobody jumps the queue.
-- A row whose unique key is taken is left out; so is one that was inserted before under the same id.
INSERT INTO holdfast_job (id, tenant, queue, kind, lane, priority, due_us, payload, dedupe_key, unique_key, unique_until_us,
                 attempts_max, timeout_us, trace, token, created_us)
SELECT given.id, given.tenant, given.queue, given.kind,
       CASE WHEN given.delay_us > 0 OR given.due_us > {now_us} THEN 'waiting' ELSE 'ready' END,
       given.priority, CASE WHEN given.due_us > {now_us} THEN given.due_us ELSE {now_us} + given.delay_us END, given.payload, given.dedupe_key, given.dedupe_key,
       CASE WHEN given.unique_us IS NULL THEN NULL ELSE {now_us} + given.unique_us END,
       given.attempts_max, given.timeout_us, given.trace, CAST(:token AS BIGINT), {now_us}
  FROM {given: id text, tenant text, queue text, kind text, priority smallint, delay_us bigint, payload text, dedupe_key text, unique_us bigint, attempts_max integer, timeout_us bigint, due_us bigint, trace text}
 WHERE true
ON CONFLICT DO NOTHING;

-- name: enqueue_one
-- One job without a dedupe key, in one round trip. The clock is read where it matters only: that takes its time too.
INSERT INTO holdfast_job (id, tenant, queue, kind, lane, priority, due_us, payload, attempts_max, timeout_us, trace, created_us)
VALUES (:id, :tenant, :queue, :kind,
        CASE WHEN CAST(:delay_us AS BIGINT) > 0 THEN 'waiting' WHEN CAST(:due_us AS BIGINT) IS NULL THEN 'ready'
             WHEN :due_us > {now_us} THEN 'waiting' ELSE 'ready' END,
        :priority,
        CASE WHEN CAST(:due_us AS BIGINT) IS NULL THEN {now_us} + CAST(:delay_us AS BIGINT)
             WHEN :due_us > {now_us} THEN :due_us ELSE {now_us} END,
        :payload, :attempts_max, :timeout_us, :trace, {now_us})
ON CONFLICT (id) DO NOTHING;

-- name: enqueue_alike
-- Jobs that differ in nothing but their payloads, as {"id": payload}: SQLite reads that four times as fast as rows.
-- All that are enqueued together are due at the same time, so that they keep their order.
/* sqlite:
INSERT INTO holdfast_job (id, tenant, queue, kind, lane, priority, due_us, payload, attempts_max, timeout_us, trace, token, created_us)
SELECT given.key, :tenant, :queue, :kind,
       CASE WHEN :delay_us > 0 OR :due_us > :at_us THEN 'waiting' ELSE 'ready' END,
       :priority, CASE WHEN :due_us > :at_us THEN :due_us ELSE :at_us + :delay_us END, given.value,
       :attempts_max, :timeout_us, :trace, :token, :at_us
  FROM json_each(:given) AS given WHERE true
ON CONFLICT DO NOTHING
*/
/* postgresql: SELECT 1 */;

-- name: stream
-- Many jobs without dedupe keys, as a stream of rows; SQLite needs none.
/* postgresql:
COPY holdfast_job (id, tenant, queue, kind, lane, priority, due_us, payload, attempts_max, timeout_us, trace, created_us) FROM STDIN
*/
/* sqlite: SELECT 1 */;

-- name: stream_begin
-- The time, and whether the first of the batch is there already: then the reply to its commit was lost.
SELECT {now_us}, EXISTS (SELECT 1 FROM holdfast_job WHERE id = :id);

-- name: free_unique
-- A twin whose window is over no longer keeps others out.
UPDATE holdfast_job SET unique_key = NULL
 WHERE tenant = :tenant AND queue = :queue AND unique_key = :dedupe_key
   AND unique_until_us IS NOT NULL AND unique_until_us <= {now_us};

-- name: twin
SELECT id FROM holdfast_job WHERE tenant = :tenant AND queue = :queue AND unique_key = :dedupe_key;

-- name: claim
-- The row tells who holds the job and since when; the journal gets it with the end of the attempt. SQLite, which has one
-- writer at a time, tells here what the rows will be and writes it with `hold`: that takes a quarter less.
/* postgresql:
UPDATE holdfast_job
   SET state = 'processing', lease_owner = :owner, token = token + 1,
       attempt_count = attempt_count + 1, started_us = COALESCE(started_us, {now_us}), last_attempt_us = {now_us}
 WHERE ctid = ANY(ARRAY( SELECT ctid
*/
/* sqlite:
SELECT id, token + 1, kind, payload, attempt_count + 1, pardon_count, attempts_max, code_counts, timeout_us,
       {now_us}, tenant, trace, priority, due_us, cancel_us, COALESCE(started_us, {now_us}), sequence,
       sequence_position, rowid
*/
  FROM holdfast_job
 WHERE state = 'queued' AND queue = :queue AND lane = :lane
   AND NOT EXISTS (SELECT 1 FROM holdfast_queue WHERE name = :queue AND paused_us IS NOT NULL)
 ORDER BY priority, due_us, id LIMIT :count
/* postgresql: FOR UPDATE SKIP LOCKED ))
RETURNING id, token, kind, payload, attempt_count, pardon_count, attempts_max, code_counts, timeout_us,
          last_attempt_us, tenant, trace, priority, due_us, cancel_us, started_us, sequence, sequence_position
*/;

-- name: hold
-- What `claim` has just found, for SQLite.
/* sqlite:
UPDATE holdfast_job
   SET state = 'processing', lease_owner = :owner, token = token + 1,
       attempt_count = attempt_count + 1, started_us = COALESCE(started_us, :claimed_us), last_attempt_us = :claimed_us
 WHERE rowid IN (SELECT value FROM json_each(:found))
*/
/* postgresql: SELECT 1 */;

-- name: promote
-- What has become due may be claimed.
UPDATE holdfast_job SET lane = CASE WHEN pardon_count > 2 THEN 'alone' ELSE 'ready' END
 WHERE id /* postgresql: = ANY(ARRAY( */ /* sqlite: IN ( */
       SELECT id FROM holdfast_job WHERE state = 'queued' AND lane = 'waiting' AND due_us <= {now_us}
        ORDER BY due_us LIMIT :count
        /* postgresql: FOR UPDATE SKIP LOCKED )) */ /* sqlite: ) */
RETURNING queue;

-- name: next_due
SELECT min(due_us) - {now_us} FROM holdfast_job WHERE state = 'queued' AND lane = 'waiting';

-- name: finish
-- The state is written so that no partial index fits: this is a look-up by id, whatever the planner believes.
-- SQLite takes {"id": token} or {"id": [token, result]}: a plain value is read fifteen times as fast as a row.
/* postgresql: WITH done AS ( */
UPDATE holdfast_job AS job
   SET state = 'complete', token = job.token + 1, finished_us = {now_us}, lease_owner = NULL, cancel_us = NULL,
       result = given.result
  FROM /* postgresql: {given: id text, token bigint, duration_us bigint, result text} */
       /* sqlite: (SELECT key AS id, iif(type = 'array', value ->> 0, value) AS token,
                          iif(type = 'array', value ->> 1, NULL) AS result FROM json_each(:given)) AS given */
 WHERE job.id = given.id AND job.token = given.token AND job.state || '' = 'processing'
/* postgresql: RETURNING job.id, job.queue, job.kind, job.attempt_count, job.finished_us, job.last_attempt_us,
                         given.duration_us )
INSERT INTO holdfast_journal (at_us, subject, verb, queue, kind, attempt, worker, duration_us, claimed_us)
SELECT done.finished_us, done.id, 'finished', done.queue, done.kind, done.attempt_count, :worker, done.duration_us,
       done.last_attempt_us
  FROM done
RETURNING subject */;

-- name: just_finished
-- Which of {"id": token} a finish has moved a moment ago, in this very transaction: they are not in the journal yet.
/* sqlite:
SELECT job.id FROM json_each(:given) AS given CROSS JOIN holdfast_job AS job ON job.id = given.key
 WHERE job.state || '' = 'complete' AND job.token = given.value + 1
   AND NOT EXISTS (SELECT 1 FROM holdfast_journal AS journal WHERE journal.subject = job.id AND journal.verb = 'finished')
*/
/* postgresql: SELECT 1 */;

-- name: journal_finished
-- {"id": duration_us}, for SQLite, which cannot write it together with the finish.
/* sqlite:
INSERT INTO holdfast_journal (at_us, subject, verb, queue, kind, attempt, worker, duration_us, claimed_us)
SELECT job.finished_us, job.id, 'finished', job.queue, job.kind, job.attempt_count, :worker, given.value,
       job.last_attempt_us
  FROM json_each(:given) AS given CROSS JOIN holdfast_job AS job ON job.id = given.key
*/
/* postgresql: SELECT 1 */;

-- name: settled_claims
-- Which claims of these jobs this worker has settled: the turn whose reply was lost has happened.
SELECT subject, claimed_us FROM holdfast_journal AS journal
 WHERE subject {among: ids} AND worker = :worker AND claimed_us IS NOT NULL AND claimed_by IS NULL
   AND NOT EXISTS (SELECT 1 FROM holdfast_job AS job WHERE job.id = journal.subject AND job.last_attempt_us = journal.claimed_us
                                       AND job.lease_owner || '' = :worker);

-- name: finishing
-- How it stands with jobs whose handlers have finished them in transactions of their own. What such a transaction still
-- holds is left out: nobody waits for one that stands still.
-- (The state is written so that no partial index fits: this is a look-up by id.)
SELECT id, token, state || '' FROM holdfast_job WHERE id {among: ids} /* postgresql: FOR UPDATE SKIP LOCKED */;

-- name: see
-- Jobs that came with a transaction of the user's own; the process that takes this mark off tells that they were
-- enqueued. One that may be claimed is left for a moment to the worker that claims it, which tells as well: that spares
-- this write.
UPDATE holdfast_job SET token = 0
 WHERE id /* postgresql: = ANY(ARRAY( */ /* sqlite: IN ( */
       SELECT id FROM holdfast_job
        WHERE token < 0 AND (lane = 'waiting' OR created_us <= {now_us} - :left_us) ORDER BY id LIMIT :count
        /* postgresql: FOR UPDATE SKIP LOCKED )) */ /* sqlite: ) */
RETURNING id, tenant, queue, kind, trace, CASE WHEN lane = 'waiting' THEN due_us - created_us ELSE 0 END;

-- name: retry
-- Back to the queue with a later due time: retry, snooze, release and reclaim differ in what they give back.
-- A request to stop stays in force: the worker that claims the job next is told. The first attempt, given back, has
-- never been: the time of a job begins with the next one, unless it is timed. A job that was lost with three workers is
-- tried apart.
UPDATE holdfast_job
   SET state = 'queued', token = token + 1, due_us = {now_us} + :delay_us, lease_owner = NULL,
       lane = CASE WHEN :delay_us > 0 THEN 'waiting' WHEN pardon_count + :pardoned > 2 THEN 'alone' ELSE 'ready' END,
       attempt_count = attempt_count - :returned,
       started_us = CASE WHEN attempt_count > :returned OR :timed = 1 THEN started_us END,
       pardon_count = pardon_count + :pardoned,
       code_counts = COALESCE(:code_counts, code_counts)
 WHERE id = :id AND token = :token AND state = 'processing'
RETURNING id;

-- name: fail
UPDATE holdfast_job
   SET state = 'failed', token = token + 1, failed_us = {now_us}, lease_owner = NULL, cancel_us = NULL, unique_key = NULL,
       error_code = :code, error_message = :message, error_technical = :technical, fingerprint = :fingerprint,
       error_place = :place, remote_status = :remote_status, remote_code = :remote_code,
       remote_message = :remote_message,
       code_counts = COALESCE(:code_counts, code_counts)
 WHERE id = :id AND token = :token AND state = 'processing'
RETURNING id;

-- name: journal_settled
INSERT INTO holdfast_journal (at_us, subject, verb, queue, kind, attempt, worker, code, upstream_status, duration_us, due_us, reason,
                     claimed_us, claimed_by, remote_code, remote_message, traceback)
SELECT {now_us}, given.id, given.verb, given.queue, given.kind, given.attempt, :worker, given.code,
       given.upstream_status, given.duration_us,
       CASE WHEN given.delay_us IS NULL THEN NULL ELSE {now_us} + given.delay_us END, given.reason,
       given.claimed_us, given.claimed_by, given.remote_code, given.remote_message, given.traceback
  FROM {given: id text, verb text, queue text, kind text, attempt integer, code text, upstream_status integer, duration_us bigint, delay_us bigint, reason text, claimed_us bigint, claimed_by text, remote_code text, remote_message text, traceback text};

-- name: held
-- Without those that a handler is finishing in a transaction of its own: that one decides.
SELECT id, token, queue, kind, attempt_count, pardon_count, attempts_max, code_counts, last_attempt_us, tenant, lane,
       sequence, sequence_position
  FROM holdfast_job WHERE lease_owner = :owner ORDER BY id /* postgresql: FOR UPDATE SKIP LOCKED */;

-- name: abandoned
-- What another transaction settles at this moment is left for the next sweep: a sweep does not wait for one that hangs.
SELECT id, token, queue, kind, attempt_count, pardon_count, attempts_max, code_counts, last_attempt_us, tenant, lane,
       sequence, sequence_position, {now_us} - started_us
  FROM holdfast_job WHERE lease_owner = :owner ORDER BY id /* postgresql: FOR UPDATE SKIP LOCKED */;

-- name: cancel_queued
UPDATE holdfast_job
   SET state = 'failed', token = token + 1, failed_us = {now_us}, unique_key = NULL, cancel_us = NULL,
       error_code = :code, error_message = :message, error_technical = :technical, fingerprint = :fingerprint
 WHERE id = :id AND state = 'queued'
   AND (CAST(:tenant AS TEXT) IS NULL OR tenant = :tenant)
RETURNING id, queue, kind, attempt_count, lane, sequence, sequence_position;

-- name: ask_cancel
-- The worker that holds the job sees this at its next heartbeat.
UPDATE holdfast_job SET cancel_us = COALESCE(cancel_us, {now_us}) WHERE id = :id AND state = 'processing'
   AND (CAST(:tenant AS TEXT) IS NULL OR tenant = :tenant)
RETURNING id, queue, kind, attempt_count;

-- name: cancels
SELECT id FROM holdfast_job WHERE lease_owner = :owner AND cancel_us IS NOT NULL;

-- name: show
SELECT id, tenant, queue, kind, state, lane, priority, due_us, payload, dedupe_key, attempt_count, pardon_count,
       attempts_max, manual_retry_count, code_counts, timeout_us, lease_owner, token, cancel_us, trace, result,
       error_code, error_message, error_technical, fingerprint, error_place, remote_status, remote_code, remote_message,
       created_us, started_us, last_attempt_us, finished_us, failed_us,
       (SELECT lease_until_us FROM holdfast_worker AS worker WHERE worker.id = job.lease_owner) AS lease_until_us
  FROM holdfast_job AS job WHERE id = :id
   AND (CAST(:tenant AS TEXT) IS NULL OR tenant = :tenant);

-- name: kind
SELECT kind FROM holdfast_job WHERE id = :id;

-- name: outcome
SELECT state, result, error_code, error_message FROM holdfast_job WHERE id = :id
   AND (CAST(:tenant AS TEXT) IS NULL OR tenant = :tenant);

-- name: last_events
-- The end of a history, the last first.
SELECT id, at_us, verb, attempt, worker, code, upstream_status, duration_us, due_us, reason, remote_code, remote_message,
       traceback FROM (
  SELECT position AS id, at_us, verb, attempt, worker, code, upstream_status, duration_us, due_us, reason, remote_code,
         remote_message, traceback
    FROM holdfast_job_event WHERE subject = :subject ORDER BY position DESC LIMIT :count
) AS page ORDER BY at_us DESC, id DESC;

-- name: beginning
-- The jobs whose ids begin like this, the newest first.
SELECT id FROM holdfast_job WHERE id >= :beginning AND id < :beginning || '~' ORDER BY id DESC LIMIT :count;

-- name: history
-- A page by position, told by time: what was written while an attempt went on comes after its claim.
SELECT id, at_us, verb, attempt, worker, code, upstream_status, duration_us, due_us, reason, remote_code, remote_message,
       traceback FROM (
  SELECT position AS id, at_us, verb, attempt, worker, code, upstream_status, duration_us, due_us, reason, remote_code,
         remote_message, traceback
    FROM holdfast_job_event WHERE subject = :id AND entry >= CAST(:after AS BIGINT) / 2 AND position > :after
   ORDER BY position LIMIT :count
) AS page ORDER BY at_us, id;

-- name: list
SELECT id, tenant, queue, kind, state, priority, due_us, attempt_count, manual_retry_count, error_code, error_message,
       created_us, last_attempt_us, finished_us, failed_us
  FROM holdfast_job
 WHERE (CAST(:state AS TEXT) IS NULL OR state = :state) AND (CAST(:queue AS TEXT) IS NULL OR queue = :queue) AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind)
   AND (CAST(:tenant AS TEXT) IS NULL OR tenant = :tenant) AND (CAST(:code AS TEXT) IS NULL OR error_code = :code)
   AND (CAST(:before AS TEXT) IS NULL OR id < :before)
 ORDER BY id DESC LIMIT :count;

-- name: prune_finished
DELETE FROM holdfast_job
 WHERE id /* postgresql: = ANY(ARRAY( */ /* sqlite: IN ( */
       SELECT id FROM holdfast_job WHERE state = 'complete' AND finished_us < {now_us} - :older_us
        ORDER BY finished_us LIMIT :count /* postgresql: FOR UPDATE SKIP LOCKED )) */ /* sqlite: ) */;
