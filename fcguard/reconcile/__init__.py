"""Take up calls that an earlier process left open, and bring each to an end that is proved or to a person."""
