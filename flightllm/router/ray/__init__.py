"""The engine `ray`: each replica is an actor on a Ray cluster."""
