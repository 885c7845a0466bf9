-- The tools that the connectors know.

-- name: add_tool
INSERT INTO holdfast_commerce_tool (name, definition, changed_us) VALUES (:name, :definition, {now_us})
ON CONFLICT (name) DO NOTHING;

-- name: put_tool
INSERT INTO holdfast_commerce_tool (name, definition, changed_us) VALUES (:name, :definition, {now_us})
ON CONFLICT (name) DO UPDATE SET definition = excluded.definition, changed_us = excluded.changed_us;

-- name: get_tool
SELECT name, definition FROM holdfast_commerce_tool WHERE name = :name;

-- name: list_tools
SELECT name, definition FROM holdfast_commerce_tool ORDER BY name LIMIT :count;
