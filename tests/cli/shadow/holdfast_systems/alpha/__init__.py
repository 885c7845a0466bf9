"""A system with a page at its root, a job, a stand-in, a check, and a life that it writes down."""
