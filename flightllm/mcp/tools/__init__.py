"""The tools that agents call, one file each."""
