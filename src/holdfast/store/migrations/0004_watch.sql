-- What is counted, for all processes together. Labels are canonical JSON text; a histogram is its buckets, each by
-- itself, its sum and its count.

CREATE TABLE metric_total (
  name TEXT NOT NULL,
  labels TEXT NOT NULL,
  value /* postgresql: DOUBLE PRECISION */ /* sqlite: REAL */ NOT NULL,
  seen_us BIGINT NOT NULL,
  PRIMARY KEY (name, labels)
) /* postgresql: WITH (fillfactor = 70) */ /* sqlite: WITHOUT ROWID */;

-- The same by time, twice: in short slices for the last hours, in long ones for the last days.
CREATE TABLE metric_slice (
  width_s INTEGER NOT NULL,
  name TEXT NOT NULL,
  slice_us BIGINT NOT NULL,
  labels TEXT NOT NULL,
  value /* postgresql: DOUBLE PRECISION */ /* sqlite: REAL */ NOT NULL,
  PRIMARY KEY (width_s, name, slice_us, labels)
) /* postgresql: WITH (fillfactor = 70) */ /* sqlite: WITHOUT ROWID */;
CREATE INDEX metric_slice_old ON metric_slice (width_s, slice_us);

-- The last batch of each process, so that one whose reply was lost is not added twice; and when it was last heard of.
CREATE TABLE metric_flush (
  process TEXT PRIMARY KEY,
  sequence BIGINT NOT NULL,
  seen_us BIGINT NOT NULL
);
CREATE INDEX metric_flush_seen ON metric_flush (seen_us);

-- What only a process itself knows at a moment, such as the state of its own breakers. Counts while it is heard of.
CREATE TABLE metric_gauge (
  process TEXT NOT NULL,
  name TEXT NOT NULL,
  labels TEXT NOT NULL,
  value /* postgresql: DOUBLE PRECISION */ /* sqlite: REAL */ NOT NULL,
  PRIMARY KEY (process, name, labels)
);

-- Work that one process does for all, and when it was last done.
CREATE TABLE metric_turn (
  name TEXT PRIMARY KEY,
  taken_us BIGINT NOT NULL
);

-- Dead letters of one queue are counted without looking at those of the others.
CREATE INDEX job_dead_queue ON job (queue, failed_us) WHERE state = 'failed';
