"""What people can read about governed calls: OpenTelemetry spans and metrics, and log lines."""

from fcguard.telemetry.start import setup

__all__ = ["setup"]
