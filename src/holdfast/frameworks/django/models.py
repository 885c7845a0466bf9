"""No models: the tables are Holdfast's own. Django tells only apps with this module that it has migrated a database."""
