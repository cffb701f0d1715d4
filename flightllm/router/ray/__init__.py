"""The engine `ray`: replicas on the machines of a Ray cluster, each an actor."""
