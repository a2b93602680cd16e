"""Importers for the conversations of other programs."""
