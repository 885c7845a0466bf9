"""Holdfast: failure handling for Python services."""
