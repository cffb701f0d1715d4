"""The profile of a model's KV caches, learned once and kept beside it: rotations, means, weights, distributions."""
