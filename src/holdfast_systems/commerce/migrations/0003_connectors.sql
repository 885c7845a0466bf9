-- Tools of the connectors; uploads and ingestions of the control plane.

CREATE TABLE holdfast_commerce_tool (
  name TEXT PRIMARY KEY,
  definition TEXT NOT NULL,
  changed_us BIGINT NOT NULL
);

-- A file that a client sends to the object store itself.
CREATE TABLE holdfast_commerce_upload (
  id TEXT PRIMARY KEY,
  instance_id TEXT NOT NULL,
  tenant TEXT NOT NULL,
  filename TEXT NOT NULL,
  content_type TEXT NOT NULL,
  bytes BIGINT NOT NULL,
  expires_us BIGINT NOT NULL,
  created_us BIGINT NOT NULL,
  CONSTRAINT holdfast_commerce_upload_bytes CHECK (bytes > 0)
);
CREATE INDEX holdfast_commerce_upload_instance ON holdfast_commerce_upload (instance_id, id);
CREATE INDEX holdfast_commerce_upload_expiry ON holdfast_commerce_upload (expires_us);

-- One for each upload: how far the knowledge base is with it.
CREATE TABLE holdfast_commerce_ingestion (
  id TEXT PRIMARY KEY,
  upload_id TEXT NOT NULL,
  instance_id TEXT NOT NULL,
  tenant TEXT NOT NULL,
  status TEXT NOT NULL,
  attempts BIGINT NOT NULL,
  code TEXT,
  document_id TEXT,
  retry_us BIGINT,
  give_up_us BIGINT NOT NULL,
  created_us BIGINT NOT NULL,
  changed_us BIGINT NOT NULL,
  CONSTRAINT holdfast_commerce_ingestion_upload UNIQUE (upload_id),
  CONSTRAINT holdfast_commerce_ingestion_status
    CHECK (status IN ('PENDING', 'PROCESSING', 'RETRY_PENDING', 'COMPLETED', 'FAILED')),
  CONSTRAINT holdfast_commerce_ingestion_retry CHECK ((status = 'RETRY_PENDING') = (retry_us IS NOT NULL)),
  CONSTRAINT holdfast_commerce_ingestion_code CHECK (status NOT IN ('RETRY_PENDING', 'FAILED') OR code IS NOT NULL),
  CONSTRAINT holdfast_commerce_ingestion_document CHECK (status <> 'COMPLETED' OR document_id IS NOT NULL)
);
CREATE INDEX holdfast_commerce_ingestion_instance ON holdfast_commerce_ingestion (instance_id, id);
CREATE INDEX holdfast_commerce_ingestion_open ON holdfast_commerce_ingestion (give_up_us)
  WHERE status IN ('PENDING', 'PROCESSING', 'RETRY_PENDING');
