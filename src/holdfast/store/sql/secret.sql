-- Secrets that all processes of a store share.

-- name: keep
INSERT INTO holdfast_secret (name, value, created_us) VALUES (:name, :value, {now_us}) ON CONFLICT (name) DO NOTHING;

-- name: find
SELECT value FROM holdfast_secret WHERE name = :name;

-- name: reseal
UPDATE holdfast_secret SET value = :value WHERE name = :name AND value = :stored;
