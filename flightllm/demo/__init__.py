"""Sample tables of the project's own, and the tour that runs AI queries on them."""
