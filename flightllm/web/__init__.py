"""The web page: queries, an SQL box, tables and the engine's load, for users who signed in."""
