"""Any return value becomes one JSON shape, with big and binary parts kept as files."""

from fcguard.results.artifacts import ArtifactDirectory
from fcguard.results.shape import Keep, Shaped, shape

__all__ = ["ArtifactDirectory", "Keep", "Shaped", "shape"]
