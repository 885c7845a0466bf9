-- API keys: hashed at rest, found by their visible prefix.

-- name: issue
INSERT INTO holdfast_api_key (id, prefix, hash, name, tenant, created_us, expires_us)
VALUES (:id, :prefix, :hash, :name, :tenant, {now_us}, {now_us} + CAST(:expires_us AS BIGINT))
ON CONFLICT (prefix) DO NOTHING
RETURNING expires_us;

-- name: find
SELECT id, hash, name, tenant, expires_us, revoked_us IS NOT NULL,
       expires_us IS NOT NULL AND expires_us <= {now_us}
  FROM holdfast_api_key WHERE prefix = :prefix;

-- name: revoke
UPDATE holdfast_api_key SET revoked_us = {now_us} WHERE id = :id AND revoked_us IS NULL RETURNING prefix;

-- name: exists
SELECT 1 FROM holdfast_api_key WHERE id = :id;

-- name: list
SELECT id, prefix, name, tenant, created_us, expires_us, revoked_us
  FROM holdfast_api_key
 WHERE (CAST(:tenant AS TEXT) IS NULL OR tenant = :tenant) AND id > :after ORDER BY id LIMIT :count;

-- name: note
INSERT INTO holdfast_journal (at_us, subject, verb) VALUES ({now_us}, :subject, :verb);
