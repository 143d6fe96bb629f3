"""Classify a failure, look the plan up, act on it."""
