"""Tables on disk: their files, the manifest that names them, and the readers of replaced files.

Imports: common, config, errors.
"""
