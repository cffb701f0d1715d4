"""The tasks for training and testing the demo model: one file per kind of question."""
