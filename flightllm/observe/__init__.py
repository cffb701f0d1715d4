"""What a running server tells about itself: metrics, health, traces."""
