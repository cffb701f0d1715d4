"""FlightLLM as a system of SemBench: its runner for the film scenario, and one SQL file for each question."""
