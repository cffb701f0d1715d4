"""The engine `fake`: it answers at once, without a model, in the form that a call asks for."""
