"""What handlers leave behind, so that a test can count it."""
