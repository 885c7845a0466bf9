"""The pages, each a function from what it reads to what it shows."""
