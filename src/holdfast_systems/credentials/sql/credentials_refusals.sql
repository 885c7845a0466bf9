-- Webhooks that the engine refused, for operators. Rows are added in one order, so that two processes never wait crosswise.

-- name: add
INSERT INTO holdfast_credentials_refusal AS refusal (platform, code, field, address, refused_count, message, first_us, last_us)
SELECT platform, code, field, address, refused_count, message, {now_us}, {now_us}
  FROM {given: platform text, code text, field text, address text, refused_count bigint, message text} WHERE TRUE
 ORDER BY platform, code, field, address
ON CONFLICT (platform, code, field, address) DO UPDATE
   SET refused_count = refusal.refused_count + EXCLUDED.refused_count, message = EXCLUDED.message,
       last_us = EXCLUDED.last_us;

-- name: list
SELECT code, field, address, refused_count, message, first_us, last_us FROM holdfast_credentials_refusal
 WHERE platform = :platform ORDER BY last_us DESC, code, field, address LIMIT :count;

-- name: prune
-- What is old, and what is more than are kept.
DELETE FROM holdfast_credentials_refusal
 WHERE platform = :platform AND (last_us < {now_us} - :kept_us OR last_us < (
       SELECT min(last_us) FROM (SELECT last_us FROM holdfast_credentials_refusal WHERE platform = :platform
                                  ORDER BY last_us DESC LIMIT :most) AS kept));
