"""What Holdfast costs, measured beside its peers in one run: `python -m bench`."""
