"""The Flower app at the server. Its code is the installed package."""

from fedkg.deploy.flower.server_app import app

__all__ = ["app"]
