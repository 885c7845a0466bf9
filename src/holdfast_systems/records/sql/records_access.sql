-- Who may come in, how much they may ask for, and what all processes agree on.

-- name: add_key
INSERT INTO holdfast_records_key (key_id, account_id, scopes, created_us) VALUES (:key_id, :account_id, :scopes, {now_us});

-- name: scopes
SELECT scopes FROM holdfast_records_key WHERE key_id = :key_id;

-- name: account_of
SELECT account_id FROM holdfast_records_key WHERE key_id = :key_id;

-- name: scopes_of
SELECT key_id, scopes FROM holdfast_records_key WHERE account_id = :account_id ORDER BY key_id LIMIT :count;

-- name: accounts
-- Every account that has a key, records or a quota; a page of them.
SELECT account_id FROM (
  SELECT DISTINCT account_id FROM holdfast_records_key
  UNION SELECT account_id FROM holdfast_records_quota) AS known
 WHERE account_id > :after ORDER BY account_id LIMIT :count;

-- name: quota
SELECT daily, monthly, per_minute FROM holdfast_records_quota WHERE account_id = :account_id;

-- name: set_quota
INSERT INTO holdfast_records_quota (account_id, daily, monthly, per_minute, changed_us)
VALUES (:account_id, :daily, :monthly, :per_minute, {now_us})
ON CONFLICT (account_id) DO UPDATE SET daily = excluded.daily, monthly = excluded.monthly,
  per_minute = excluded.per_minute, changed_us = excluded.changed_us;

-- name: take
-- How much was used in the period before; the row is held until the end of the transaction.
INSERT INTO holdfast_records_usage (account_id, period, used) VALUES (:account_id, :period, 0)
ON CONFLICT (account_id, period) DO UPDATE SET used = holdfast_records_usage.used
RETURNING used;

-- name: use
UPDATE holdfast_records_usage SET used = used + :count WHERE account_id = :account_id AND period = :period;

-- name: usage
SELECT period, used FROM holdfast_records_usage WHERE account_id = :account_id AND period {among: periods};

-- name: forget_usage
DELETE FROM holdfast_records_usage WHERE period < :before;

-- name: setting
SELECT value FROM holdfast_records_setting WHERE name = :name;

-- name: settle
INSERT INTO holdfast_records_setting (name, value, set_us) VALUES (:name, :value, {now_us})
ON CONFLICT (name) DO NOTHING RETURNING name;

-- name: set
INSERT INTO holdfast_records_setting (name, value, set_us) VALUES (:name, :value, {now_us})
ON CONFLICT (name) DO UPDATE SET value = excluded.value, set_us = excluded.set_us;

-- name: unset
DELETE FROM holdfast_records_setting WHERE name = :name RETURNING name;
