-- Alerts, and the switches that they flip. Shared by all processes: whoever moves a row has told about it.

-- One row for each cause: a rule, and the value of its label where it looks at each one apart. A row is never deleted
-- while somebody could still hold its version; rows of long ago are pruned.
CREATE TABLE alert (
  rule TEXT /* postgresql: COLLATE "C" */ NOT NULL,
  cause TEXT /* postgresql: COLLATE "C" */ NOT NULL DEFAULT '',
  phase TEXT NOT NULL,
  -- Since when the condition holds; when it was told; when it was over.
  began_us BIGINT,
  fired_us BIGINT,
  resolved_us BIGINT,
  -- What was read at the last move, and when.
  value DOUBLE PRECISION,
  at_us BIGINT NOT NULL,
  version BIGINT NOT NULL DEFAULT 1,
  -- JSON: for each sink the job that took the last notice to it.
  notices TEXT NOT NULL DEFAULT '{}',
  PRIMARY KEY (rule, cause),
  CONSTRAINT alert_phase CHECK (phase IN ('inactive', 'pending', 'firing', 'resolved')),
  CONSTRAINT alert_began CHECK ((began_us IS NULL) = (phase = 'inactive')),
  CONSTRAINT alert_fired CHECK ((fired_us IS NULL) = (phase IN ('inactive', 'pending'))),
  CONSTRAINT alert_resolved CHECK ((resolved_us IS NULL) = (phase <> 'resolved'))
);
CREATE INDEX alert_quiet ON alert (at_us) WHERE phase IN ('inactive', 'resolved');

-- A switch stands for two providers of the same thing, each behind a link of its own.
CREATE TABLE switch (
  name TEXT PRIMARY KEY,
  primary_link TEXT NOT NULL,
  fallback_link TEXT NOT NULL,
  side TEXT NOT NULL DEFAULT 'primary',
  -- Who flipped it last: `alert:…` or `hand`. An alert that is over takes back only what it did itself.
  flipped_by TEXT,
  flipped_us BIGINT,
  reason TEXT,
  CONSTRAINT switch_side CHECK (side IN ('primary', 'fallback')),
  CONSTRAINT switch_two CHECK (primary_link <> fallback_link),
  CONSTRAINT switch_flipped CHECK ((flipped_by IS NULL) = (flipped_us IS NULL))
);
CREATE INDEX switch_primary ON switch (primary_link);
