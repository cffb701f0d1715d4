"""What the demo model is trained on and tested with: one file per kind of question."""
