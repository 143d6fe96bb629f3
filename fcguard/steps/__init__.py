"""The eight steps of a governed call, one file each."""

from fcguard.steps.table import PLAIN, Steps, watched

__all__ = ["PLAIN", "Steps", "watched"]
