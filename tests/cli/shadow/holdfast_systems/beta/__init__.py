"""A system of two parts and nothing at its root."""
