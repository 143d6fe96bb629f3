"""Frozen data that flows through a governed call."""
