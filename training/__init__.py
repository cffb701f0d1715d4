"""Write the sample tables, and train and measure the demonstration model; no part of the installed package."""
