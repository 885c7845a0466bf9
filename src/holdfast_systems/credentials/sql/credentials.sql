-- The engine: what is processed, and what it comes to. Every write adds, so that order does not matter.

-- name: setting
SELECT value FROM holdfast_credentials_setting WHERE name = :name;

-- name: settle
-- The first process that sets it decides.
INSERT INTO holdfast_credentials_setting (name, value, set_us) VALUES (:name, :value, {now_us}) ON CONFLICT (name) DO NOTHING;

-- name: set
INSERT INTO holdfast_credentials_setting (name, value, set_us) VALUES (:name, :value, {now_us})
ON CONFLICT (name) DO UPDATE SET value = excluded.value, set_us = excluded.set_us;

-- name: unset
DELETE FROM holdfast_credentials_setting WHERE name = :name AND value = :value;

-- name: open_window
INSERT INTO holdfast_credentials_window (platform, opened_us, taken) VALUES (:platform, {now_us}, 0)
ON CONFLICT (platform) DO NOTHING;

-- name: window
SELECT opened_us, taken, {now_us} FROM holdfast_credentials_window WHERE platform = :platform /* postgresql: FOR UPDATE */;

-- name: take
UPDATE holdfast_credentials_window SET opened_us = :opened_us, taken = :taken WHERE platform = :platform;

-- name: begin
-- A twin waits here for the first one's commit, and then changes nothing.
INSERT INTO holdfast_credentials_processed_event (platform, event_id, event_type, processed_us, result)
SELECT given.platform, given.event_id, given.event_type, {now_us}, ''
  FROM {given: platform text, event_id text, event_type text} WHERE true
ON CONFLICT (platform, event_id) DO NOTHING
RETURNING platform, event_id;

-- name: finish
UPDATE holdfast_credentials_processed_event AS processed SET result = given.result
  FROM {given: platform text, event_id text, result text}
 WHERE processed.platform = given.platform AND processed.event_id = given.event_id;

-- name: result
SELECT result FROM holdfast_credentials_processed_event WHERE platform = :platform AND event_id = :event_id;

-- name: processed
SELECT event_id, event_type, processed_us, result FROM holdfast_credentials_processed_event
 WHERE platform = :platform AND event_id = :event_id;

-- name: arrive
-- The contributions themselves; no row for one that had arrived before.
INSERT INTO holdfast_credentials_contribution AS credentials_contribution (platform, contribution_id, user_id, contribution_type, title,
                                      evidence_count, verified_count, rejected_count, first_heard_us, created_us)
SELECT given.platform, given.contribution_id, given.user_id, given.contribution_type, given.title, 0, 0, 0, {now_us}, {now_us}
  FROM {given: platform text, contribution_id text, user_id text, contribution_type text, title text} WHERE true
ON CONFLICT (platform, contribution_id) DO UPDATE
   SET user_id = excluded.user_id, contribution_type = excluded.contribution_type, title = excluded.title,
       created_us = excluded.created_us
 WHERE credentials_contribution.user_id IS NULL
RETURNING platform, contribution_id, evidence_count, verified_count, rejected_count;

-- name: state
-- Something about a contribution, whether it has arrived or not.
INSERT INTO holdfast_credentials_contribution AS credentials_contribution (platform, contribution_id, evidence_count, verified_count, rejected_count,
                                      first_heard_us)
VALUES (:platform, :contribution_id, :evidence, :verified, :rejected, {now_us})
ON CONFLICT (platform, contribution_id) DO UPDATE
   SET evidence_count = credentials_contribution.evidence_count + excluded.evidence_count,
       verified_count = credentials_contribution.verified_count + excluded.verified_count,
       rejected_count = credentials_contribution.rejected_count + excluded.rejected_count
RETURNING user_id, evidence_count, verified_count, rejected_count;

-- name: keep_statement
INSERT INTO holdfast_credentials_statement (platform, event_id, contribution_id, event_type, evidence_type, actor_id,
                                   heard_us, applied_us)
VALUES (:platform, :event_id, :contribution_id, :event_type, :evidence_type, :actor_id,
        {now_us}, CASE WHEN :applied = 1 THEN {now_us} END);

-- name: apply_parked
UPDATE holdfast_credentials_statement SET applied_us = {now_us}
 WHERE platform = :platform AND contribution_id = :contribution_id AND applied_us IS NULL;

-- name: keep_vouch
INSERT INTO holdfast_credentials_vouch (platform, event_id, voucher_id, vouchee_id, skill_id, weight, heard_us)
VALUES (:platform, :event_id, :voucher_id, :vouchee_id, :skill_id, :weight, {now_us});

-- name: add
INSERT INTO holdfast_credentials_member AS credentials_member (platform, user_id, username, contribution_count, evidence_count, verified_count,
                                rejected_count, vouch_count, reputation)
SELECT given.platform, given.user_id, given.username, given.contributions, given.evidence, given.verified, given.rejected,
       given.vouches, given.reputation
  FROM {given: platform text, user_id text, username text, contributions integer, evidence integer, verified integer, rejected integer, vouches integer, reputation bigint}
 WHERE true
ON CONFLICT (platform, user_id) DO UPDATE
   SET username = COALESCE(excluded.username, credentials_member.username),
       contribution_count = credentials_member.contribution_count + excluded.contribution_count,
       evidence_count = credentials_member.evidence_count + excluded.evidence_count,
       verified_count = credentials_member.verified_count + excluded.verified_count,
       rejected_count = credentials_member.rejected_count + excluded.rejected_count,
       vouch_count = credentials_member.vouch_count + excluded.vouch_count,
       reputation = credentials_member.reputation + excluded.reputation;

-- name: change
-- Less than nothing may be added here, which the checks would refuse of a new row.
UPDATE holdfast_credentials_member
   SET contribution_count = contribution_count + :contributions, evidence_count = evidence_count + :evidence,
       verified_count = verified_count + :verified, rejected_count = rejected_count + :rejected,
       vouch_count = vouch_count + :vouches, reputation = reputation + :reputation
 WHERE platform = :platform AND user_id = :user_id;

-- name: member
SELECT user_id, username, reputation, contribution_count, verified_count, rejected_count, evidence_count, vouch_count
  FROM holdfast_credentials_member WHERE platform = :platform AND user_id = :user_id;

-- name: members
-- Those with the most first; `before` is the last one of the page before.
SELECT user_id, username, reputation, contribution_count, verified_count, rejected_count, evidence_count, vouch_count
  FROM holdfast_credentials_member
 WHERE platform = :platform
   AND (reputation < :before_reputation OR (reputation = :before_reputation AND user_id > :before_id))
 ORDER BY reputation DESC, user_id LIMIT :count;

-- name: contribution
SELECT contribution_id, user_id, contribution_type, title, evidence_count, verified_count, rejected_count,
       first_heard_us, created_us
  FROM holdfast_credentials_contribution WHERE platform = :platform AND contribution_id = :contribution_id;

-- name: statements
SELECT event_id, event_type, evidence_type, actor_id, heard_us, applied_us FROM holdfast_credentials_statement
 WHERE platform = :platform AND contribution_id = :contribution_id ORDER BY heard_us, event_id LIMIT :count;

-- name: contributions_of
SELECT contribution_id, contribution_type, title, evidence_count, verified_count, rejected_count, created_us
  FROM holdfast_credentials_contribution WHERE platform = :platform AND user_id = :user_id
 ORDER BY created_us DESC, contribution_id LIMIT :count;

-- name: totals
SELECT (SELECT count(*) FROM holdfast_credentials_processed_event WHERE platform = :platform),
       (SELECT count(*) FROM holdfast_credentials_member WHERE platform = :platform),
       (SELECT count(*) FROM holdfast_credentials_contribution WHERE platform = :platform AND user_id IS NOT NULL),
       (SELECT count(*) FROM holdfast_credentials_statement WHERE platform = :platform AND applied_us IS NULL);

-- name: latest
-- By the index of times: SQLite would rather read and sort everything that the platform ever sent.
SELECT event_id, event_type, processed_us, result FROM holdfast_credentials_processed_event
 WHERE /* sqlite: + */ platform = :platform ORDER BY processed_us DESC, event_id LIMIT :count;
