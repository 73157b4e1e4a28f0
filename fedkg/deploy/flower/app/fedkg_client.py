"""The Flower app at a site. Its code is the installed package, which `flwr run` does not copy."""

from fedkg.deploy.flower.client_app import app

__all__ = ["app"]
