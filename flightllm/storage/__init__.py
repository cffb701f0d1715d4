"""Tables on disk: their files, the manifest that names them, and the readers of replaced files.

After a crash, `folder.py` removes the files of half-written tables; `flightllm/recovery` only restarts the process.

Imports: common, config, errors.
"""
