"""A saved model behind HTTP: rows in, decisions out."""

from adacsl.base.extras import requires

with requires("serve"):
    import fastapi  # noqa: F401  a missing one is named here, before its absence shows up somewhere
    import prometheus_client  # noqa: F401
    import pyarrow  # noqa: F401
    import uvicorn  # noqa: F401
