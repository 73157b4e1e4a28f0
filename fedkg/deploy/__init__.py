"""Federations of sites that keep their data: each site answers messages of a server.

    server: round ──► transport ──► site: answer from its own data
       ▲                                 │
       └──────────── replies ◄───────────┘

`message` defines what travels, `transport` how a server reaches its sites. `remote_sites` trains
over a transport at the server, `site_training` at a site; `private_rows` is what a site remembers,
and `disclosures` lists what leaves it. A site is identified by its name and key, and keeps its
private state in a folder of its own.
"""
