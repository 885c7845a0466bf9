-- Uploads: who sent what, and which job converts it. How far the job has come is the job's own to say.

CREATE TABLE holdfast_conversion_upload (
  id TEXT /* postgresql: COLLATE "C" */ NOT NULL PRIMARY KEY,
  owner TEXT NOT NULL,
  -- A keyed digest of the address it came from; empty where nobody was asked.
  address TEXT NOT NULL DEFAULT '',
  file_name TEXT NOT NULL,
  mapping TEXT NOT NULL,
  bytes BIGINT NOT NULL,
  -- What its XML takes up.
  result_bytes BIGINT NOT NULL DEFAULT 0,
  sha256 TEXT NOT NULL,
  -- NULL when the upload was refused and there is nothing to do.
  job_id TEXT,
  error_code TEXT,
  error_message TEXT,
  -- The file and its mapping, while this row keeps twins out.
  twin_key TEXT,
  -- Until then a failed job is about to be revived, and its key is not free.
  reserved_until_us BIGINT,
  created_us BIGINT NOT NULL,
  -- When the files were deleted.
  purged_us BIGINT,
  CONSTRAINT holdfast_conversion_upload_refused CHECK ((job_id IS NULL) = (error_code IS NOT NULL)),
  CONSTRAINT holdfast_conversion_upload_message CHECK ((error_message IS NULL) = (error_code IS NULL)),
  CONSTRAINT holdfast_conversion_upload_twin CHECK (twin_key IS NULL OR (job_id IS NOT NULL AND purged_us IS NULL)),
  CONSTRAINT holdfast_conversion_upload_bytes CHECK (bytes >= 0)
);
CREATE INDEX holdfast_conversion_upload_owner ON holdfast_conversion_upload (owner, id);
CREATE UNIQUE INDEX holdfast_conversion_upload_twins ON holdfast_conversion_upload (owner, twin_key) WHERE twin_key IS NOT NULL;
CREATE UNIQUE INDEX holdfast_conversion_upload_job ON holdfast_conversion_upload (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX holdfast_conversion_upload_address ON holdfast_conversion_upload (address) WHERE purged_us IS NULL;
CREATE INDEX holdfast_conversion_upload_kept ON holdfast_conversion_upload (created_us) WHERE purged_us IS NULL;
