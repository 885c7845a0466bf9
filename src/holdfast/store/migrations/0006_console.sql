-- Who did what by hand. A row is written in the transaction of the deed itself; work on many grows with each of its
-- transactions, so that everybody sees how far it has come.
CREATE TABLE audit (
  id TEXT /* postgresql: COLLATE "C" */ PRIMARY KEY,
  at_us BIGINT NOT NULL,
  who TEXT NOT NULL,
  verb TEXT NOT NULL,
  subject TEXT NOT NULL,
  reason TEXT,
  state TEXT NOT NULL,
  -- A sentence, or the code with which it was refused.
  result TEXT,
  total BIGINT,
  done BIGINT NOT NULL DEFAULT 0,
  refused BIGINT NOT NULL DEFAULT 0,
  touched_us BIGINT NOT NULL,
  CONSTRAINT audit_state CHECK (state IN ('running', 'done', 'refused'))
);
