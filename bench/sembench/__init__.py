"""SemBench's ten questions about films, in the product's SQL, with a model that answers from the hidden labels.

`readers` has one file for each form of prompt that the model can read. `forms` has the SQL of each question.
"""
