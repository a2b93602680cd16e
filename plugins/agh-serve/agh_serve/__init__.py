"""agh over HTTP: a foreground server that every other command does without."""
