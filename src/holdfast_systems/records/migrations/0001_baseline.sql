-- Records: companies, people and slots, and everything that happens to them.

CREATE TABLE holdfast_records_company (
  account_id TEXT NOT NULL,
  -- Unique by its number, whichever account it belongs to.
  uid TEXT /* postgresql: COLLATE "C" */ NOT NULL,
  name TEXT NOT NULL,
  website TEXT,
  -- What two spellings of one website have in common.
  website_key TEXT,
  industry TEXT,
  created_us BIGINT NOT NULL,
  changed_us BIGINT NOT NULL,
  -- Filled in from the website.
  title TEXT,
  description TEXT,
  contact_emails TEXT,
  social_links TEXT,
  enriched_us BIGINT,
  PRIMARY KEY (account_id, uid),
  CONSTRAINT holdfast_records_company_website CHECK ((website IS NULL) = (website_key IS NULL))
) /* sqlite: WITHOUT ROWID */;
CREATE UNIQUE INDEX holdfast_records_company_website_key ON holdfast_records_company (account_id, website_key)
  WHERE website_key IS NOT NULL;

CREATE TABLE holdfast_records_person (
  account_id TEXT NOT NULL,
  uid TEXT /* postgresql: COLLATE "C" */ NOT NULL,
  company_uid TEXT /* postgresql: COLLATE "C" */ NOT NULL,
  full_name TEXT NOT NULL,
  email TEXT NOT NULL,
  role TEXT,
  created_us BIGINT NOT NULL,
  changed_us BIGINT NOT NULL,
  PRIMARY KEY (account_id, uid)
) /* sqlite: WITHOUT ROWID */;
CREATE INDEX holdfast_records_person_company ON holdfast_records_person (company_uid, uid);

-- A slot is free while nobody is named.
CREATE TABLE holdfast_records_slot (
  company_uid TEXT /* postgresql: COLLATE "C" */ NOT NULL,
  role TEXT NOT NULL,
  person_uid TEXT,
  assigned_us BIGINT,
  PRIMARY KEY (company_uid, role),
  CONSTRAINT holdfast_records_slot_role CHECK (role IN ('CEO', 'CFO', 'HR')),
  CONSTRAINT holdfast_records_slot_assigned CHECK ((person_uid IS NULL) = (assigned_us IS NULL))
) /* sqlite: WITHOUT ROWID */;

-- Assignments that a person decides about.
CREATE TABLE holdfast_records_review (
  id TEXT /* postgresql: COLLATE "C" */ NOT NULL PRIMARY KEY,
  account_id TEXT NOT NULL,
  company_uid TEXT NOT NULL,
  role TEXT NOT NULL,
  person_uid TEXT NOT NULL,
  occupant_uid TEXT NOT NULL,
  status TEXT NOT NULL,
  created_us BIGINT NOT NULL,
  decided_us BIGINT,
  decided_by TEXT,
  CONSTRAINT holdfast_records_review_status CHECK (status IN ('open', 'approved', 'rejected')),
  CONSTRAINT holdfast_records_review_decided CHECK (
    (status = 'open') = (decided_us IS NULL) AND (status = 'open') = (decided_by IS NULL))
);
CREATE INDEX holdfast_records_review_account ON holdfast_records_review (account_id, id);
CREATE INDEX holdfast_records_review_company ON holdfast_records_review (company_uid);

-- The next number of each kind of id on a day; processes take several at once.
CREATE TABLE holdfast_records_counter (
  kind TEXT NOT NULL,
  day TEXT NOT NULL,
  next BIGINT NOT NULL,
  PRIMARY KEY (kind, day)
);

-- What an API key of the core may do here; it never changes.
CREATE TABLE holdfast_records_key (
  key_id TEXT NOT NULL PRIMARY KEY,
  account_id TEXT NOT NULL,
  scopes TEXT NOT NULL,
  created_us BIGINT NOT NULL
);
CREATE INDEX holdfast_records_key_account ON holdfast_records_key (account_id, key_id);

-- How much an account may ask for; NULL is as much as it likes.
CREATE TABLE holdfast_records_quota (
  account_id TEXT NOT NULL PRIMARY KEY,
  daily BIGINT,
  monthly BIGINT,
  per_minute BIGINT,
  changed_us BIGINT NOT NULL,
  CONSTRAINT holdfast_records_quota_positive CHECK (daily >= 0 AND monthly >= 0 AND per_minute >= 1)
);

-- What an account has asked for in a day (2024-08-28) or a month (2024-08).
CREATE TABLE holdfast_records_usage (
  account_id TEXT NOT NULL,
  period TEXT NOT NULL,
  used BIGINT NOT NULL,
  PRIMARY KEY (account_id, period)
);

-- What all processes agree on: the maintenance window, troubles that were told.
CREATE TABLE holdfast_records_setting (
  name TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL,
  set_us BIGINT NOT NULL
);

-- Imports: how far each has come is written in the transaction of each batch.
CREATE TABLE holdfast_records_import (
  id TEXT /* postgresql: COLLATE "C" */ NOT NULL PRIMARY KEY,
  account_id TEXT NOT NULL,
  format TEXT NOT NULL,
  -- The columns of a CSV file, as JSON.
  header TEXT,
  bytes BIGINT NOT NULL,
  sha256 TEXT NOT NULL,
  parts BIGINT NOT NULL,
  rows_total BIGINT NOT NULL,
  -- The job of the part that is worked on, or was last.
  job_id TEXT NOT NULL,
  -- Everything before this row of this part is done.
  position_part BIGINT NOT NULL,
  position_row BIGINT NOT NULL,
  rows_succeeded BIGINT NOT NULL,
  rows_failed BIGINT NOT NULL,
  created_us BIGINT NOT NULL,
  finished_us BIGINT,
  CONSTRAINT holdfast_records_import_format CHECK (format IN ('ndjson', 'csv')),
  CONSTRAINT holdfast_records_import_rows CHECK (rows_succeeded + rows_failed <= rows_total),
  CONSTRAINT holdfast_records_import_finished CHECK (
    finished_us IS NULL OR rows_succeeded + rows_failed = rows_total)
);
CREATE INDEX holdfast_records_import_account ON holdfast_records_import (account_id, id);

-- What became of the rows of one batch, in their order.
CREATE TABLE holdfast_records_import_batch (
  import_id TEXT /* postgresql: COLLATE "C" */ NOT NULL,
  first_row BIGINT NOT NULL,
  rows BIGINT NOT NULL,
  failed BIGINT NOT NULL,
  outcomes TEXT NOT NULL,
  PRIMARY KEY (import_id, first_row)
);

CREATE TABLE holdfast_records_verification (
  id TEXT /* postgresql: COLLATE "C" */ NOT NULL PRIMARY KEY,
  account_id TEXT NOT NULL,
  email TEXT NOT NULL,
  person_uid TEXT,
  job_id TEXT NOT NULL,
  provider TEXT,
  result TEXT,
  details TEXT,
  created_us BIGINT NOT NULL,
  completed_us BIGINT,
  CONSTRAINT holdfast_records_verification_complete CHECK ((result IS NULL) = (completed_us IS NULL))
);
CREATE INDEX holdfast_records_verification_account ON holdfast_records_verification (account_id, id);
CREATE INDEX holdfast_records_verification_known ON holdfast_records_verification (account_id, email, completed_us)
  WHERE completed_us IS NOT NULL;

CREATE TABLE holdfast_records_enrichment (
  id TEXT /* postgresql: COLLATE "C" */ NOT NULL PRIMARY KEY,
  account_id TEXT NOT NULL,
  company_uid TEXT NOT NULL,
  job_id TEXT NOT NULL,
  outcome TEXT,
  result TEXT,
  created_us BIGINT NOT NULL,
  completed_us BIGINT,
  CONSTRAINT holdfast_records_enrichment_complete CHECK ((outcome IS NULL) = (completed_us IS NULL))
);
CREATE INDEX holdfast_records_enrichment_account ON holdfast_records_enrichment (account_id, id);
