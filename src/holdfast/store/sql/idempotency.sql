-- A key belongs to the holder of its token. Token 0 has no holder: the key was released.
-- Rows that a holder has locked in a transaction of its own are passed over, so that no twin waits for a stranger's
-- commit.

-- name: begin
-- The journal has no row for it: the key itself says when it was first seen, and its end how long it took.
INSERT INTO holdfast_idempotency (tenant, operation, key, request_hash, state, token, lease_until_us,
                         first_seen_us, last_seen_us, expires_us)
VALUES (:tenant, :operation, :key, :request_hash, 'working', :token, {now_us} + :lease_us,
        {now_us}, {now_us}, {now_us} + :expires_us)
ON CONFLICT (tenant, operation, key) DO NOTHING
RETURNING first_seen_us;

-- name: begin_again
-- Only if the key is still as it was seen: in that state, under that token, and without a holder.
UPDATE holdfast_idempotency
   SET request_hash = :request_hash, state = 'working', token = :token, lease_until_us = {now_us} + :lease_us,
       status = NULL, headers = NULL, body = NULL, resources = NULL,
       first_seen_us = CASE WHEN expires_us <= {now_us} THEN {now_us} ELSE first_seen_us END,
       last_seen_us = {now_us}, expires_us = {now_us} + :expires_us
 WHERE tenant = :tenant AND operation = :operation AND key = :key
   AND state = :seen_state AND token = :seen_token
   AND (lease_until_us <= {now_us} OR (state = 'done' AND expires_us <= {now_us}))
   /* postgresql: AND EXISTS (SELECT 1 FROM (
        SELECT 1 FROM holdfast_idempotency WHERE tenant = :tenant AND operation = :operation AND key = :key
           FOR UPDATE SKIP LOCKED) AS locked) */
RETURNING first_seen_us;

-- name: look
SELECT request_hash, state, token, lease_until_us, status, headers, body, resources, first_seen_us, expires_us, {now_us}
  FROM holdfast_idempotency WHERE tenant = :tenant AND operation = :operation AND key = :key;

-- name: touch
UPDATE holdfast_idempotency SET last_seen_us = {now_us}
 WHERE tenant = :tenant AND operation = :operation AND key = :key
   /* postgresql: AND EXISTS (SELECT 1 FROM (
        SELECT 1 FROM holdfast_idempotency WHERE tenant = :tenant AND operation = :operation AND key = :key
           FOR UPDATE SKIP LOCKED) AS locked) */;

-- name: free
-- No row while a transaction holds it.
SELECT token FROM holdfast_idempotency WHERE tenant = :tenant AND operation = :operation AND key = :key
/* postgresql: FOR UPDATE SKIP LOCKED */;

-- name: left
-- How long the holder's lease still runs; no row when nobody works on the key.
SELECT lease_until_us - {now_us} FROM holdfast_idempotency
 WHERE tenant = :tenant AND operation = :operation AND key = :key AND state = 'working' AND lease_until_us > {now_us};

-- name: renew
UPDATE holdfast_idempotency
   SET lease_until_us = {now_us} + :lease_us,
       expires_us = CASE WHEN expires_us < {now_us} + :lease_us THEN {now_us} + :lease_us ELSE expires_us END
 WHERE tenant = :tenant AND operation = :operation AND key = :key AND state = 'working' AND token = :token
   /* postgresql: AND EXISTS (SELECT 1 FROM (
        SELECT 1 FROM holdfast_idempotency WHERE tenant = :tenant AND operation = :operation AND key = :key
           FOR UPDATE SKIP LOCKED) AS locked) */
RETURNING token;

-- name: finish
-- An answer that comes soon expires when its beginning said: an index entry that stays as it is costs nothing.
-- PostgreSQL writes the journal in the same statement: a round trip costs as much as the row.
/* postgresql: WITH finished AS ( */
UPDATE holdfast_idempotency
   SET state = 'done', lease_until_us = NULL, status = :status, headers = :headers, body = :body,
       resources = :resources,
       expires_us = CASE WHEN expires_us < {now_us} + :expires_us - :expires_us / 100 THEN {now_us} + :expires_us
                         ELSE expires_us END
 WHERE tenant = :tenant AND operation = :operation AND key = :key AND state = 'working' AND token = :token
RETURNING token
/* postgresql: ), noted AS (
  INSERT INTO holdfast_journal (at_us, subject, verb, kind, code, duration_us)
  SELECT {now_us}, :subject, 'key.finished', :operation, CAST(:code AS TEXT), CAST(:duration_us AS BIGINT)
    FROM finished)
SELECT token FROM finished */;

-- name: release
UPDATE holdfast_idempotency SET token = 0, lease_until_us = {now_us}
 WHERE tenant = :tenant AND operation = :operation AND key = :key AND state = 'working' AND token = :token
RETURNING token;

-- name: show
SELECT tenant, operation, key, request_hash, state, token, lease_until_us, status, resources, first_seen_us,
       last_seen_us, expires_us
  FROM holdfast_idempotency WHERE tenant = :tenant AND operation = :operation AND key = :key;

-- name: prune
-- No lease outlives the expiry of its key, so nobody works on what is deleted here.
DELETE FROM holdfast_idempotency
 WHERE /* postgresql: ctid = ANY(ARRAY(SELECT ctid */ /* sqlite: rowid IN (SELECT rowid */
         FROM holdfast_idempotency
        WHERE expires_us <= {now_us}
        ORDER BY expires_us LIMIT :count
        /* postgresql: FOR UPDATE SKIP LOCKED )) */ /* sqlite: ) */;

-- name: note
INSERT INTO holdfast_journal (at_us, subject, verb, kind, code, duration_us, reason)
VALUES ({now_us}, :subject, :verb, :operation, :code, :duration_us, :reason);

-- name: write_keys
-- Begins of keys that are new and finishes of keys that are held, in one statement; of a begin the status is 0.
-- An empty text stands for none: both drivers take texts much faster than NULL.
-- On SQLite the triggers of the view say what is done; one row that is not usual refuses all of them.
-- On PostgreSQL the tokens of those that were usual come back. A key that is there is left out before the insert, which
-- would wait for the transaction that changes it. A held row is found by its primary key first and then by its place: a join of
-- the two tables might as well look for the given rows in all keys. One that moves meanwhile is not found; it is then
-- finished by itself. Subqueries have a limit, so that they are asked by the primary key, row by row.
/* postgresql:
WITH given AS MATERIALIZED (
  SELECT *, (SELECT known.ctid FROM holdfast_idempotency AS known
              WHERE known.tenant = given.tenant AND known.operation = given.operation AND known.key = given.key
              LIMIT 1) AS place
    FROM {given: tenant text, operation text, key text, token bigint, request_hash text, status integer, headers text, body text, resources text, code text, duration_us bigint}
), begun AS (
  INSERT INTO holdfast_idempotency (tenant, operation, key, request_hash, state, token, lease_until_us,
                           first_seen_us, last_seen_us, expires_us)
  SELECT given.tenant, given.operation, given.key, given.request_hash, 'working', given.token,
         {now_us} + :lease_us, {now_us}, {now_us}, {now_us} + :expires_us
    FROM given WHERE given.status = 0 AND given.place IS NULL
  ON CONFLICT (tenant, operation, key) DO NOTHING
  RETURNING token, first_seen_us
), finished AS (
  UPDATE holdfast_idempotency AS held
     SET state = 'done', lease_until_us = NULL, status = given.status, headers = given.headers,
         body = decode(given.body, 'hex'), resources = NULLIF(given.resources, ''),
         expires_us = CASE WHEN held.expires_us < {now_us} + :expires_us - :expires_us / 100 THEN {now_us} + :expires_us
                           ELSE held.expires_us END
    FROM given
   WHERE given.status > 0 AND held.ctid = given.place AND held.state = 'working' AND held.token = given.token
  RETURNING held.token, held.tenant, held.operation, held.key, given.code, given.duration_us
), noted AS (
  INSERT INTO holdfast_journal (at_us, subject, verb, kind, code, duration_us)
  SELECT {now_us}, '[' || to_json(tenant) || ',' || to_json(operation) || ',' || to_json(key) || ']', 'key.finished',
         operation, NULLIF(code, ''), duration_us
    FROM finished
)
SELECT token, first_seen_us FROM begun UNION ALL SELECT token, NULL FROM finished */
/* sqlite:
INSERT INTO holdfast_key_write (tenant, operation, key, token, request_hash, status, headers, body, resources, code,
                       duration_us, at_us, lease_until_us, expires_us)
SELECT given.tenant, given.operation, given.key, given.token, given.request_hash, given.status, given.headers,
       given.body, NULLIF(given.resources, ''), NULLIF(given.code, ''), given.duration_us,
       {now_us}, {now_us} + :lease_us, {now_us} + :expires_us
  FROM {given: tenant text, operation text, key text, token bigint, request_hash text, status integer, headers text, body blob, resources text, code text, duration_us bigint} */;
