-- Webhooks: who is told, what they are told, and which job tells whom.

CREATE TABLE webhook_endpoint (
  id TEXT PRIMARY KEY,
  tenant TEXT NOT NULL DEFAULT '',
  url TEXT NOT NULL,
  scheme TEXT NOT NULL,
  -- JSON: a list of event types, a list of delays in seconds, an object of headers.
  event_types TEXT NOT NULL,
  delays_s TEXT NOT NULL,
  headers TEXT NOT NULL,
  timeout_us BIGINT NOT NULL,
  retry_after_max_us BIGINT NOT NULL,
  in_flight_max INTEGER NOT NULL,
  limit_count INTEGER,
  limit_per_us BIGINT,
  limit_burst INTEGER,
  ordered SMALLINT NOT NULL DEFAULT 0,
  disabled_us BIGINT,
  disabled_reason TEXT,
  created_us BIGINT NOT NULL,
  CONSTRAINT webhook_endpoint_limit CHECK (
    (limit_count IS NULL) = (limit_per_us IS NULL) AND (limit_count IS NULL) = (limit_burst IS NULL)),
  CONSTRAINT webhook_endpoint_ordered CHECK (ordered IN (0, 1)),
  CONSTRAINT webhook_endpoint_disabled CHECK ((disabled_us IS NULL) = (disabled_reason IS NULL))
);
CREATE INDEX webhook_endpoint_enabled ON webhook_endpoint (tenant, id) WHERE disabled_us IS NULL;

-- The secrets themselves, because signing needs them: whoever reads this table can sign in our name.
CREATE TABLE webhook_secret (
  id TEXT PRIMARY KEY,
  endpoint_id TEXT NOT NULL REFERENCES webhook_endpoint (id) ON DELETE CASCADE,
  secret TEXT NOT NULL,
  created_us BIGINT NOT NULL,
  expires_us BIGINT
);
CREATE INDEX webhook_secret_of ON webhook_secret (endpoint_id, id);

-- How far the own rate limit of an endpoint is used up.
CREATE TABLE webhook_pace (
  endpoint_id TEXT PRIMARY KEY REFERENCES webhook_endpoint (id) ON DELETE CASCADE,
  tat_us BIGINT NOT NULL
);

CREATE TABLE webhook_event (
  id TEXT PRIMARY KEY,
  tenant TEXT NOT NULL DEFAULT '',
  type TEXT NOT NULL,
  order_key TEXT,
  -- Exactly what is sent.
  body TEXT NOT NULL,
  -- Which call published it, so that a call that is repeated recognises its own work.
  published_by TEXT NOT NULL,
  created_us BIGINT NOT NULL
);
CREATE INDEX webhook_event_created ON webhook_event (created_us);

-- The job that brings an event to an endpoint.
CREATE TABLE webhook_delivery (
  event_id TEXT NOT NULL,
  endpoint_id TEXT NOT NULL,
  job_id TEXT /* postgresql: COLLATE "C" */ NOT NULL,
  order_key TEXT,
  position BIGINT,
  PRIMARY KEY (event_id, endpoint_id),
  CONSTRAINT webhook_delivery_order CHECK ((order_key IS NULL) = (position IS NULL))
);
CREATE UNIQUE INDEX webhook_delivery_job ON webhook_delivery (job_id);
CREATE UNIQUE INDEX webhook_delivery_position ON webhook_delivery (endpoint_id, order_key, position)
  WHERE order_key IS NOT NULL;

-- The last position of each key; its row lock puts those who publish under one key in a line.
CREATE TABLE webhook_sequence (
  endpoint_id TEXT NOT NULL,
  order_key TEXT NOT NULL,
  position BIGINT NOT NULL,
  PRIMARY KEY (endpoint_id, order_key)
);
