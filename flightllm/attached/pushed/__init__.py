"""Parts of a plan that run at the source of their tables: each one goes out as one SELECT."""
