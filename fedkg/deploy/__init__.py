"""Federations of sites that keep their data: each site answers messages of a server.

    server: round ──► transport ──► site: answer from its own data
       ▲                                 │
       └──────────── replies ◄───────────┘

`message` defines what travels, `transport` how a server reaches its sites. A site is identified by
its name and key, and keeps its private state in a folder of its own.
"""
