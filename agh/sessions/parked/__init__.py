"""Sessions whose prompt waits for the reset of a usage limit."""
