"""The gateway: sessions of widgets, and runs that are authorized, executed and settled once."""
