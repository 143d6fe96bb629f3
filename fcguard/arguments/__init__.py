"""Arguments of a call: parsed strictly, folded by the schema, validated, and explained to the model."""

from fcguard.arguments.records import Finding, Fold, Normalized
from fcguard.arguments.schema import ArgumentSchema, normalize

__all__ = ["ArgumentSchema", "Finding", "Fold", "Normalized", "normalize"]
