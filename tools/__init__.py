"""The generator of the documents: `python -m tools`, run by `make docs`."""
