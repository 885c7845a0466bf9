-- Credentials: what the engine knows of people, which events it has processed, and what operators were told.

-- What was decided once for all processes, such as a secret that nobody had set.
CREATE TABLE holdfast_credentials_setting (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL,
  set_us BIGINT NOT NULL
);

-- The window of each platform's rate limit: when it opened, and how much of it is taken.
CREATE TABLE holdfast_credentials_window (
  platform TEXT PRIMARY KEY,
  opened_us BIGINT NOT NULL,
  taken INTEGER NOT NULL,
  CONSTRAINT holdfast_credentials_window_taken CHECK (taken >= 0)
);

-- An event is here if and only if its effect is: both are written in one transaction, with the answer to repeats.
CREATE TABLE holdfast_credentials_processed_event (
  platform TEXT NOT NULL,
  event_id TEXT NOT NULL,
  event_type TEXT NOT NULL,
  processed_us BIGINT NOT NULL,
  result TEXT NOT NULL,
  PRIMARY KEY (platform, event_id)
);
CREATE INDEX holdfast_credentials_processed_event_type ON holdfast_credentials_processed_event (event_type);
CREATE INDEX holdfast_credentials_processed_event_time ON holdfast_credentials_processed_event (processed_us);

CREATE TABLE holdfast_credentials_member (
  platform TEXT NOT NULL,
  user_id TEXT NOT NULL,
  username TEXT,
  contribution_count INTEGER NOT NULL,
  evidence_count INTEGER NOT NULL,
  verified_count INTEGER NOT NULL,
  rejected_count INTEGER NOT NULL,
  vouch_count INTEGER NOT NULL,
  reputation BIGINT NOT NULL,
  PRIMARY KEY (platform, user_id),
  CONSTRAINT holdfast_credentials_member_counts CHECK (
    contribution_count >= 0 AND evidence_count >= 0 AND vouch_count >= 0 AND reputation >= 0
    AND verified_count BETWEEN 0 AND contribution_count AND rejected_count BETWEEN 0 AND contribution_count)
);
CREATE INDEX holdfast_credentials_member_rank ON holdfast_credentials_member (platform, reputation DESC, user_id);

-- A contribution without a user has not arrived yet; what was said about it waits here.
CREATE TABLE holdfast_credentials_contribution (
  platform TEXT NOT NULL,
  contribution_id TEXT NOT NULL,
  user_id TEXT,
  contribution_type TEXT,
  title TEXT,
  evidence_count INTEGER NOT NULL,
  verified_count INTEGER NOT NULL,
  rejected_count INTEGER NOT NULL,
  first_heard_us BIGINT NOT NULL,
  created_us BIGINT,
  PRIMARY KEY (platform, contribution_id),
  CONSTRAINT holdfast_credentials_contribution_arrived CHECK (
    (user_id IS NULL) = (created_us IS NULL) AND (user_id IS NULL) = (title IS NULL)
    AND (user_id IS NULL) = (contribution_type IS NULL))
);
CREATE INDEX holdfast_credentials_contribution_of ON holdfast_credentials_contribution (platform, user_id);
CREATE INDEX holdfast_credentials_contribution_awaited ON holdfast_credentials_contribution (platform, first_heard_us)
  WHERE user_id IS NULL;

-- Evidence and reviews; one without a time of application is parked until its contribution comes.
CREATE TABLE holdfast_credentials_statement (
  platform TEXT NOT NULL,
  event_id TEXT NOT NULL,
  contribution_id TEXT NOT NULL,
  event_type TEXT NOT NULL,
  evidence_type TEXT,
  actor_id TEXT NOT NULL,
  heard_us BIGINT NOT NULL,
  applied_us BIGINT,
  PRIMARY KEY (platform, event_id)
);
CREATE INDEX holdfast_credentials_statement_about ON holdfast_credentials_statement (platform, contribution_id);
CREATE INDEX holdfast_credentials_statement_parked ON holdfast_credentials_statement (platform, contribution_id)
  WHERE applied_us IS NULL;

CREATE TABLE holdfast_credentials_vouch (
  platform TEXT NOT NULL,
  event_id TEXT NOT NULL,
  voucher_id TEXT NOT NULL,
  vouchee_id TEXT NOT NULL,
  skill_id TEXT,
  weight TEXT NOT NULL,
  heard_us BIGINT NOT NULL,
  PRIMARY KEY (platform, event_id)
);
CREATE INDEX holdfast_credentials_vouch_for ON holdfast_credentials_vouch (platform, vouchee_id);

-- Each time an event was given up, operators are told once.
CREATE TABLE holdfast_credentials_alert (
  job_id TEXT NOT NULL,
  failed_us BIGINT NOT NULL,
  event_id TEXT NOT NULL,
  event_type TEXT NOT NULL,
  message TEXT NOT NULL,
  error TEXT NOT NULL,
  raised_us BIGINT NOT NULL,
  PRIMARY KEY (job_id, failed_us)
);
CREATE INDEX holdfast_credentials_alert_raised ON holdfast_credentials_alert (raised_us);

-- Webhooks that were refused, as operators see them: one row for all that have these in common.
CREATE TABLE holdfast_credentials_refusal (
  platform TEXT NOT NULL,
  code TEXT NOT NULL,
  field TEXT NOT NULL,
  address TEXT NOT NULL,
  refused_count BIGINT NOT NULL,
  message TEXT NOT NULL,
  first_us BIGINT NOT NULL,
  last_us BIGINT NOT NULL,
  PRIMARY KEY (platform, code, field, address),
  CONSTRAINT holdfast_credentials_refusal_count CHECK (refused_count > 0)
);
CREATE INDEX holdfast_credentials_refusal_latest ON holdfast_credentials_refusal (platform, last_us);
