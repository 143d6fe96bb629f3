"""Execution constraints: the world now, asked before every attempt."""
