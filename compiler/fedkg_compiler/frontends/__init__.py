"""The frontends: each binds its kind of source to `ir`."""
