"""The ledger: what a store promises, and the stores that keep it."""
