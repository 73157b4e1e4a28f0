"""Flower as the transport: a SuperLink at the server, a SuperNode at each site.

    server: FlowerTransport ──► SuperLink ◄── SuperNode ──► ClientApp ──► socket of the site process

Flower carries bytes, encrypts them and authenticates nodes. What the bytes mean is defined by
`fedkg.deploy.message`.
"""

import os

# Flower reports its use and searches for updates over the network unless these are set
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
