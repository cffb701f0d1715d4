"""What is learned of a model's KV caches once, and kept beside it: rotations, means, weights, distributions."""
