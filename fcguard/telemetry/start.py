"""One line that gives a newcomer spans; it loads the OpenTelemetry SDK only when it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

    from fcguard.telemetry.sending import Telemetry

__all__ = ["setup"]


def setup(
    otlp_endpoint: str | None = None,
    jsonl_path: str | os.PathLike[str] | None = None,
    console: bool = False,
    set_global: bool = False,
    *,
    service_name: str | None = None,
    shutdown_timeout: float | None = None,
) -> Telemetry:
    """Make OpenTelemetry providers that send spans to a collector, a file or the terminal.

    ::

        telemetry = setup(console=True)
        guard = Guard(tracer_provider=telemetry.tracer_provider, meter_provider=telemetry.meter_provider)

    Args:
        otlp_endpoint: base address of an OTLP/HTTP collector (`http://localhost:4318`; not the port 4317 of gRPC); spans and
            metrics go there. Needs the extra `otlp`. None: what `OTEL_EXPORTER_OTLP_ENDPOINT` says, if nothing else is asked for.
        jsonl_path: file to which spans are appended, one `ExportTraceServiceRequest` in JSON a line; for
            `fcguard trace FILE` and the collector's file receiver.
        console: print each trace as a tree on stderr when it is complete.
        set_global: make them the process's global providers, so that the host's own spans go there, too.
        service_name: `service.name` of the resource; None: what `OTEL_SERVICE_NAME` or `OTEL_RESOURCE_ATTRIBUTES` says, else
            `fcguard`.
        shutdown_timeout: seconds that the end of the process, and `shutdown()`, wait at most until all is sent; 0: they do not
            wait. None: what `OTEL_BSP_EXPORT_TIMEOUT` says (milliseconds), else 3. Each request to a collector takes at
            most what `OTEL_EXPORTER_OTLP_TIMEOUT` says, 10 seconds by default.

    Returns:
        The handle. Its `shutdown()` sends what is left; it also runs at the normal end of the process. What is not sent in
        time is dropped, and one warning says how much that was.

    Raises:
        ConfigurationError: no destination was named, the address is none, `shutdown_timeout` is no number of seconds, or
            `set_global` and a global provider is set already.
        MissingExtraError: `otlp_endpoint` without the extra `otlp`.
        OSError: the file cannot be opened.
    """
    from fcguard.telemetry.sdk import start

    return start(
        otlp_endpoint,
        jsonl_path,
        console=console,
        set_global=set_global,
        service_name=service_name,
        shutdown_timeout=shutdown_timeout,
    )
