"""Suites that ship: tool-selection trap cases and the naive agents every suite is measured against."""
