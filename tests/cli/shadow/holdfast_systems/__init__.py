"""Two small systems that stand in for the installed ones: on the path before them, this package is the one found."""
