"""The eight steps of a governed call, one file each."""
