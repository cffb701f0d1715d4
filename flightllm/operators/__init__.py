"""Run a plan's stages: DataFusion for the relational ones, AI operators between them."""
