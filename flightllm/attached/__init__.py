"""Databases of other servers, read where they lie: their sources, their tables, and the SELECTs that go out.

Imports: common, config, datafusion, errors, plan.
"""
