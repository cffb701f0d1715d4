"""Functions of each dialect over typed columns, with the values that the vendor's documentation gives."""
