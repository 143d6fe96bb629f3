"""The `fcguard` command: read a ledger, check it, recover what was left open, and resolve what no machine can."""
