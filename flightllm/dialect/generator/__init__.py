"""Write syntax trees as DataFusion reads them: one file for each kind of function."""
