"""Offline evaluation of recorded tool calls: traces in, numbers, a verdict and a report out."""
