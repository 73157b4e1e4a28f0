"""Help for an author while the rules are written: the language server, and what it is made of.

`language_service` answers questions about a text and needs no server, so that a page in a browser
can call it too. `language_server` speaks the Language Server Protocol.
"""
