"""What makes the documents: `python -m tools`, run by `make docs`."""
