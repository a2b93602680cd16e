"""Importers for what other programs have kept."""
