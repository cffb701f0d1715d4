"""`python -m flightllm` is the command line."""

from flightllm.cli import main

if __name__ == "__main__":
    main(prog_name="flightllm")
