"""Readers and writers of model SDKs' wire formats; each SDK is one leaf file."""
