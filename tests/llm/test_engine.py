"""What a call's parameters and an answer say of themselves."""

from flightllm.llm.engine import Choice, Completion, Parameters, Request, Reuse


def test_a_text_of_parameters_leaves_out_later_ones_at_their_defaults() -> None:
    """Keys of cached answers are made of that text, so a new parameter must not change it where nobody sets it."""
    assert repr(Parameters(5, 0.0, Choice(("a", "b")))) == (
        "Parameters(max_tokens=5, temperature=0.0, constraint=Choice(options=('a', 'b')))"
    )
    later = Parameters(top_p=0.5, seed=0, reasoning="low", probability=True)
    assert repr(later) == (
        "Parameters(max_tokens=64, temperature=0.0, constraint=None, top_p=0.5, seed=0, reasoning='low',"
        " probability=True)"
    )


def test_a_partial_answer() -> None:
    """An answer is partial only where the token limit ended it."""
    assert Completion(1, "half", finish_reason="length").partial
    assert not Completion(1, "whole").partial


def test_equal_values_have_equal_hashes() -> None:
    """Requests, their reuse and completions can be members of a set, and equal ones are one member."""

    def request(recurs: int) -> Request:
        return Request(1, "Is it red? rose", Parameters(), "ai_filter", "Is it red?", (("t", "rose"),), recurs=recurs)

    assert len({request(0), request(5)}) == 1
    assert len({Reuse("site", "query", 1, None), Reuse("site", "query", 1, None)}) == 1
    assert len({Completion(1, "yes"), Completion(1, "yes"), Completion(1, "no")}) == 2
