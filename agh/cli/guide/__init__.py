"""What helps someone who does not know the commands yet: help, suggestions, a greeting."""
