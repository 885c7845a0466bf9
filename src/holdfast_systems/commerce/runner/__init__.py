"""The runner: one agent run at the runtime, with its time limit and its one repeat."""
