"""Readers that turn a recorded format into sessions of calls; one file each."""
