-- What the edge remembers for all processes.

-- A rate limit of one subject (an origin, a key, a tenant) under one rule. A moment that has passed means that the
-- whole burst is there: such a row says the same as none.
CREATE TABLE rate_limit (
  rule TEXT NOT NULL,
  subject TEXT NOT NULL,
  tat_us BIGINT NOT NULL,
  PRIMARY KEY (rule, subject)
);
CREATE INDEX rate_limit_idle ON rate_limit (tat_us);

-- API keys. Only a hash of the key is here; the prefix finds the row and may be shown.
CREATE TABLE api_key (
  id TEXT /* postgresql: COLLATE "C" */ PRIMARY KEY,
  prefix TEXT NOT NULL UNIQUE,
  hash TEXT NOT NULL,
  name TEXT NOT NULL,
  tenant TEXT NOT NULL DEFAULT '',
  created_us BIGINT NOT NULL,
  expires_us BIGINT,
  revoked_us BIGINT,
  CONSTRAINT api_key_hash CHECK (length(hash) = 64),
  CONSTRAINT api_key_expires CHECK (expires_us IS NULL OR expires_us > created_us)
);
CREATE INDEX api_key_tenant ON api_key (tenant, id);
