"""Tables on disk: their files, the manifest that names them, and who still reads them.

Imports: common, config, errors.
"""
