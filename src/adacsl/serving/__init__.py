"""HTTP server for saved models."""

from adacsl.base.extras import requires

with requires("serve"):
    import fastapi  # noqa: F401  a missing package is named here, before modules are imported
    import prometheus_client  # noqa: F401
    import pyarrow  # noqa: F401
    import uvicorn  # noqa: F401
