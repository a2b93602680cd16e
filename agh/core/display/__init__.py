"""How sessions, texts and times are shown. Pure functions."""
