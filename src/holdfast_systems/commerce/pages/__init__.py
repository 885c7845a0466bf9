"""What people see: the chat widget, the buyer's page, and the page of the stand-in shop."""
