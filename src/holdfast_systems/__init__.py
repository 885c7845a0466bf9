"""The systems built on Holdfast's core, one removable folder each."""
