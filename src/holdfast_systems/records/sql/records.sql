-- Companies, people, slots and reviews. Every statement names the account: another one's rows are not there.

-- name: number
INSERT INTO holdfast_records_counter (kind, day, next) VALUES (:kind, :day, :count + 1)
ON CONFLICT (kind, day) DO UPDATE SET next = holdfast_records_counter.next + :count
RETURNING next;

-- name: add_company
-- Where an insert can follow another in one statement, the slots come along; elsewhere `add_slots` brings them.
/* postgresql: WITH made AS ( */
INSERT INTO holdfast_records_company
  (uid, account_id, name, website, website_key, industry, created_us, changed_us)
VALUES (:uid, :account_id, :name, :website, :website_key, :industry, {now_us}, {now_us})
ON CONFLICT DO NOTHING
RETURNING created_us
/* postgresql: ), slots AS (
  INSERT INTO holdfast_records_slot (company_uid, role)
  SELECT :uid, role FROM made CROSS JOIN (VALUES ('CEO'), ('CFO'), ('HR')) AS roles (role))
SELECT created_us FROM made */;

-- name: add_slots
INSERT INTO holdfast_records_slot (company_uid, role) VALUES (:uid, 'CEO'), (:uid, 'CFO'), (:uid, 'HR');

-- name: twin
SELECT uid FROM holdfast_records_company WHERE account_id = :account_id AND website_key = :website_key;

-- name: company
SELECT uid, name, website, industry, created_us, changed_us, title, description, contact_emails, social_links, enriched_us
  FROM holdfast_records_company WHERE uid = :uid AND account_id = :account_id;

-- name: company_shown
-- The company once for each of its slots: all that is shown, in one statement.
SELECT company.uid, company.name, company.website, company.industry, company.created_us, company.changed_us,
       company.title, company.description, company.contact_emails, company.social_links, company.enriched_us,
       slot.role, slot.person_uid, slot.assigned_us, person.full_name
  FROM holdfast_records_company AS company
  LEFT JOIN holdfast_records_slot AS slot ON slot.company_uid = company.uid
  LEFT JOIN holdfast_records_person AS person
    ON person.account_id = company.account_id AND person.uid = slot.person_uid
 WHERE company.uid = :uid AND company.account_id = :account_id
 ORDER BY slot.role;

-- name: company_kept
-- Until the end of the transaction the company cannot be removed.
SELECT uid FROM holdfast_records_company
 WHERE uid = :uid AND account_id = :account_id /* postgresql: FOR KEY SHARE */;

-- name: company_held
SELECT uid FROM holdfast_records_company
 WHERE uid = :uid AND account_id = :account_id /* postgresql: FOR UPDATE */;

-- name: companies
SELECT uid, name, website, industry, created_us, changed_us, title, description, contact_emails, social_links, enriched_us
  FROM holdfast_records_company
 WHERE account_id = :account_id AND uid > :after
   AND (CAST(:q AS TEXT) IS NULL OR lower(name) LIKE :q ESCAPE '!' OR lower(website) LIKE :q ESCAPE '!')
 ORDER BY uid LIMIT :count;

-- name: slots
SELECT slot.company_uid, slot.role, slot.person_uid, slot.assigned_us, person.full_name
  FROM holdfast_records_slot AS slot
  LEFT JOIN holdfast_records_person AS person ON person.account_id = :account_id AND person.uid = slot.person_uid
 WHERE slot.company_uid {among: uids}
 ORDER BY slot.company_uid, slot.role;

-- name: change_company
UPDATE holdfast_records_company
   SET name = :name, website = :website, website_key = :website_key, industry = :industry, changed_us = {now_us}
 WHERE uid = :uid AND account_id = :account_id RETURNING changed_us;

-- name: remove_company
DELETE FROM holdfast_records_company WHERE uid = :uid AND account_id = :account_id RETURNING uid;

-- name: remove_slots
DELETE FROM holdfast_records_slot WHERE company_uid = :uid;

-- name: remove_reviews
DELETE FROM holdfast_records_review WHERE company_uid = :uid AND account_id = :account_id AND status = 'open';

-- name: count_people
SELECT count(*) FROM (SELECT 1 FROM holdfast_records_person WHERE company_uid = :uid LIMIT 1000) AS counted;

-- name: add_person
INSERT INTO holdfast_records_person (uid, account_id, company_uid, full_name, email, role, created_us, changed_us)
VALUES (:uid, :account_id, :company_uid, :full_name, :email, :role, {now_us}, {now_us})
RETURNING created_us;

-- name: person
SELECT uid, company_uid, full_name, email, role, created_us, changed_us
  FROM holdfast_records_person WHERE uid = :uid AND account_id = :account_id;

-- name: person_held
SELECT uid, company_uid, full_name, email, role, created_us, changed_us
  FROM holdfast_records_person WHERE uid = :uid AND account_id = :account_id /* postgresql: FOR UPDATE */;

-- name: people
SELECT uid, company_uid, full_name, email, role, created_us, changed_us
  FROM holdfast_records_person
 WHERE account_id = :account_id AND uid > :after
   AND (CAST(:q AS TEXT) IS NULL OR lower(full_name) LIKE :q ESCAPE '!' OR lower(email) LIKE :q ESCAPE '!')
 ORDER BY uid LIMIT :count;

-- name: people_of
SELECT uid, company_uid, full_name, email, role, created_us, changed_us
  FROM holdfast_records_person
 WHERE account_id = :account_id AND company_uid = :company_uid AND uid > :after
   AND (CAST(:q AS TEXT) IS NULL OR lower(full_name) LIKE :q ESCAPE '!' OR lower(email) LIKE :q ESCAPE '!')
 ORDER BY uid LIMIT :count;

-- name: change_person
UPDATE holdfast_records_person
   SET company_uid = :company_uid, full_name = :full_name, email = :email, role = :role, changed_us = {now_us}
 WHERE uid = :uid AND account_id = :account_id RETURNING changed_us;

-- name: remove_person
DELETE FROM holdfast_records_person WHERE uid = :uid AND account_id = :account_id RETURNING uid;

-- name: vacate
-- A person who goes leaves the slots of the company.
UPDATE holdfast_records_slot SET person_uid = NULL, assigned_us = NULL
 WHERE company_uid = :company_uid AND person_uid = :person_uid RETURNING role;

-- name: drop_reviews_of
DELETE FROM holdfast_records_review WHERE company_uid = :company_uid AND person_uid = :person_uid AND status = 'open';

-- name: slot
SELECT slot.person_uid, slot.assigned_us FROM holdfast_records_slot AS slot
  JOIN holdfast_records_company AS company
    ON company.account_id = :account_id AND company.uid = slot.company_uid
 WHERE slot.company_uid = :company_uid AND slot.role = :role
 /* postgresql: FOR UPDATE OF slot */;

-- name: assign
-- Only as it was seen: a person who came in between keeps the slot.
UPDATE holdfast_records_slot SET person_uid = :person_uid, assigned_us = {now_us}
 WHERE company_uid = :company_uid AND role = :role
   AND (person_uid = CAST(:seen AS TEXT) OR (person_uid IS NULL AND CAST(:seen AS TEXT) IS NULL))
RETURNING assigned_us;

-- name: free
UPDATE holdfast_records_slot SET person_uid = NULL, assigned_us = NULL
 WHERE company_uid = :company_uid AND role = :role AND person_uid = :seen RETURNING role;

-- name: add_review
INSERT INTO holdfast_records_review
  (id, account_id, company_uid, role, person_uid, occupant_uid, status, created_us)
VALUES (:id, :account_id, :company_uid, :role, :person_uid, :occupant_uid, 'open', {now_us})
RETURNING created_us;

-- name: reviews
SELECT id, company_uid, role, person_uid, occupant_uid, status, created_us, decided_us, decided_by
  FROM holdfast_records_review
 WHERE account_id = :account_id AND id > :after AND (CAST(:status AS TEXT) IS NULL OR status = :status)
 ORDER BY id LIMIT :count;

-- name: review
SELECT id, company_uid, role, person_uid, occupant_uid, status, created_us, decided_us, decided_by
  FROM holdfast_records_review WHERE id = :id AND account_id = :account_id /* postgresql: FOR UPDATE */;

-- name: decide
UPDATE holdfast_records_review SET status = :status, decided_us = {now_us}, decided_by = :by
 WHERE id = :id AND account_id = :account_id AND status = 'open' RETURNING decided_us;
