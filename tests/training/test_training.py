"""Training: batches give what prompts by themselves give, and a run goes on exactly where it was stopped."""

import copy
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the extra 'local' is not installed")

from training.batches import Batch, batches, encode, repetitions  # noqa: E402
from training.examples import training_family  # noqa: E402
from training.forward import rotation  # noqa: E402
from training.hints import mark_loss, pointer_loss  # noqa: E402
from training.meaning import meanings  # noqa: E402
from training.muon import orthogonal  # noqa: E402
from training.tasks.base import Example, Pointer  # noqa: E402
from training.tokenizer import VOCABULARY  # noqa: E402
from training.train import Recipe, Trainer, calibrate, save_model  # noqa: E402

TINY = Recipe(
    pools=2,
    pool_families=6,
    batch_tokens=1024,
    intermediate=64,
    layers=3,
    hint_layer=2,
    tokenizer_families=60,
    meaning_texts=2000,
)


@pytest.fixture(scope="module")
def trainer() -> Trainer:
    """Return a trainer of a tiny model, not yet trained."""
    return Trainer(TINY)


def losses(trainer: Trainer, batch: Batch) -> float:
    """Return the sum of the losses of the answers' tokens."""
    hidden = trainer.model.model(
        input_ids=batch.ids, position_ids=batch.positions, attention_mask=batch.mask, use_cache=False
    ).last_hidden_state
    logits = trainer.model.lm_head(hidden).transpose(1, 2)
    found = torch.nn.functional.cross_entropy(logits, batch.targets, reduction="none")
    return float((found * (batch.weights > 0)).sum().detach())


def text_of(trainer: Trainer, ids: Sequence[int]) -> str:
    """Return the text of tokens."""
    return str(trainer.tokenizer.decode(list(ids)))


@pytest.mark.slow
def test_a_family_counts_as_its_members_do(trainer: Trainer) -> None:
    """Laid out behind one trunk, answers have the probabilities that they have in prompts of their own."""
    families = [family for family in (training_family(1, number) for number in range(60)) if len(family) > 2][:4]
    together = batches(encode(trainer.tokenizer, families), 1 << 13, random.Random(1))
    apart = batches(
        encode(trainer.tokenizer, [[one] for family in families for one in family]), 1 << 13, random.Random(1)
    )
    assert sum(losses(trainer, batch) for batch in together) == pytest.approx(
        sum(losses(trainer, batch) for batch in apart), rel=1e-4
    )


def test_every_row_is_in_one_batch(trainer: Trainer) -> None:
    """Batches keep to their limit, but for a row that is longer by itself."""
    rows = encode(trainer.tokenizer, [training_family(1, number) for number in range(12)])
    cut = list(batches(rows, 1024, random.Random(1)))
    assert sum(int(batch.weights.any(-1).sum()) for batch in cut) == len(rows)
    answers = sum(sum(weight > 0 for weight in row.answers) for row in rows)
    assert sum(int((batch.weights > 0).sum()) for batch in cut) == answers
    assert all(batch.ids.numel() <= 1024 or len(batch.ids) == 1 for batch in cut)


@pytest.mark.slow
def test_batches_have_few_shapes(trainer: Trainer) -> None:
    """Rows of any length come in a handful of shapes, little of them padding."""
    rows = encode(trainer.tokenizer, [training_family(1, number) for number in range(400)])
    cut = list(batches(rows, 3072, random.Random(1)))
    assert sum(batch.ids.numel() for batch in cut) < 1.25 * sum(len(row.ids) for row in rows)
    assert all(batch.ids.size(1) % 16 == 0 for batch in cut)


def test_hints_stand_where_words_do(trainer: Trainer) -> None:
    """Marks are where words end that tell or ask, and at the prompt's end; pointers lead to values and evidence.

    In a family the marks of what all share stand there once.
    """
    row = (("note", "Ann lives in Oldham. She is tall."),)
    asked = Example(
        "filter", "ai_filter", "Is it Oldham?", row, "Yes", fields_first=True,
        marks=(("Ann lives in Oldham.", "city"), ("is it Oldham?", "city"), ("", "city")),
        pointers=(Pointer(0, "Ann lives in Oldham.", 1),),
    )  # fmt: skip
    extracted = replace(
        asked, function="ai_extract", literal=("town", "age"), answer='{"town":"Oldham","age":null}',
        marks=(("Ann lives in Oldham.", "city"), ('"town"', "city")),
        pointers=(Pointer(9, "lives in Oldham", 6), Pointer(24, "", 0)),
    )  # fmt: skip
    [family] = encode(trainer.tokenizer, [[asked, extracted]], {"city": 0})
    ids = family.ids
    marked = [text_of(trainer, ids[: place + 1]) for place, _ in family.marks]
    assert marked[0].endswith("lives in Oldham. ")
    assert marked[1].endswith("Is it Oldham?")
    assert marked[2].rstrip("\n").endswith("<|assistant|>")
    assert [text.rstrip('{}[]":,')[-4:] for text in marked[3:]] == ["town"] * 3  # twice in the schema, then answered
    assert len({number for _, number in family.marks}) == 1
    (filtered, evidence), (town, value), *copied, (age, nothing) = family.pointers
    assert text_of(trainer, ids[: filtered + 1]).rstrip("\n").endswith("<|assistant|>")
    assert [text_of(trainer, ids[: place + 1])[-8:] for place in evidence] == ["Oldham. "]
    assert text_of(trainer, ids[: town + 1]).endswith('{"town":"')
    assert [text_of(trainer, ids[:place]).rstrip()[-8:] for place in value] == ["lives in"]
    assert text_of(trainer, ids[: age + 1]).endswith('"age":')
    assert nothing == (0,)
    assert [place for place, _ in copied] == [town + 1 + number for number in range(len(copied))]
    assert all(ids[one] == ids[place + 1] for place, found in copied for one in found)
    assert text_of(trainer, ids[town + 1 : town + 2 + len(copied)]) == "Oldham"


def test_pointers_lead_to_the_answer(trainer: Trainer) -> None:
    """Whatever is copied from the prompt, one of its pointers leads to where it begins, and on from token to token."""
    followed = further = 0
    for number in range(300):
        for example in training_family(2, number):
            if example.task not in {"question", "classify", "sentiment"} or not example.pointers or example.options:
                continue
            [row] = encode(trainer.tokenizer, [[example]])
            (place, found), *copied = row.pointers
            assert row.answers[place] == 0 < row.answers[place + 1]
            told = [text_of(trainer, row.ids[one:place]).lstrip().lower() for one in found]
            assert any(text.startswith(example.answer.lower()) for text in told), example
            for own, next_ones in copied:
                assert row.answers[own] > 0
                assert {row.ids[one] for one in next_ones} == {row.ids[own + 1]}
            followed += 1
            further += len(copied)
    assert followed > 100
    assert further > followed


def test_hint_losses(trainer: Trainer) -> None:
    """They fall where states say what is meant, and where the head attends to what is pointed at."""
    model = copy.deepcopy(trainer.model)
    rows = encode(trainer.tokenizer, [training_family(3, number) for number in range(20)], trainer.meanings)
    batch = max(batches(rows, 2048, random.Random(1)), key=lambda one: len(one.pointers))
    hidden = torch.randn(*batch.ids.shape, model.config.hidden_size)
    meant = torch.zeros_like(hidden)
    for row, column, meaning in batch.marks.tolist():
        meant[row, column] = model.meanings.weight[meaning].detach() * 1e3
    with torch.no_grad():
        assert mark_loss(model, meant, batch) < mark_loss(model, hidden, batch)
        layer = model.model.layers[2]
        turned, attention = rotation(model, batch), layer.self_attn
        for weight in (attention.q_proj.weight, attention.k_proj.weight):
            weight.zero_()
            weight[31, 0] = 1.0  # a rotary pair that hardly turns
        seen = torch.ones_like(hidden)
        seen[:, :, 0] = 0
        pointed = seen.clone()
        for (row, column), found in zip(batch.pointers.tolist(), batch.pointed, strict=True):
            pointed[row, column, 0] = 30.0
            pointed[row, found, 0] = 30.0
        assert pointer_loss(layer, pointed, turned, batch) < pointer_loss(layer, seen, turned, batch)


@pytest.mark.slow
def test_calibration_changes_no_answer() -> None:
    """All logits are divided by one temperature."""
    one = Trainer(TINY)
    ids = torch.randint(10, VOCABULARY, (1, 20))
    with torch.no_grad():
        before = one.model(ids).logits
        temperature = calibrate(one, 10)
        assert torch.allclose(one.model(ids).logits * temperature, before, rtol=1e-3, atol=1e-4)


def test_text_counts_in_sum(trainer: Trainer) -> None:
    """A sample of the text stands for all of it; answers count as before, random repetitions are no text."""
    rows = encode(trainer.tokenizer, [training_family(1, number) for number in range(100)])
    alone, both = (list(batches(rows, 2048, random.Random(1), weight)) for weight in (0.0, 0.2))
    text = sum(len(row.ids) - sum(weight > 0 for weight in row.answers) for row in rows)
    added = sum(float((more.weights - less.weights).sum()) for less, more in zip(alone, both, strict=True))
    assert added == pytest.approx(0.2 * text, rel=0.1)
    assert all(
        torch.equal(more.weights[less.weights > 0], less.weights[less.weights > 0])
        for less, more in zip(alone, both, strict=True)
    )
    said = repetitions(5, range(10, 50), random.Random(1))
    assert all(not (batch.weights % 1).any() for batch in batches(said, 2048, random.Random(1), 0.2))


def test_meanings() -> None:
    """Tokens of the same texts are alike, others are not, and rare ones have no vector."""
    rng = random.Random(1)
    texts = [[rng.randint(0, 9) + 10 * (number % 2) for _ in range(5)] for number in range(400)] + [[25]]
    vectors = torch.nn.functional.normalize(meanings(texts, 30, 2), dim=1)
    likeness = vectors @ vectors.T
    assert float(likeness[:10, :10].min()) > 0.8
    assert float(likeness[:10, 10:20].abs().max()) < 0.5
    assert not vectors[25].any()


@pytest.mark.slow
def test_resumed_run_is_the_same_run(tmp_path: Path) -> None:
    """Stopped after one pool and loaded elsewhere, training ends with the same weights."""
    whole, first = Trainer(TINY), Trainer(TINY)
    first.train_pool()
    first.save(tmp_path / "state.pt")
    second = Trainer(TINY)
    second.load(tmp_path / "state.pt")
    second.train_pool()
    for _ in range(TINY.pools):
        whole.train_pool()
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, second.model.state_dict()[name]), name
    with pytest.raises(SystemExit, match="another recipe"):
        Trainer(replace(TINY, pools=3)).load(tmp_path / "state.pt")


def test_saved_model_loads(trainer: Trainer, tmp_path: Path) -> None:
    """What is saved is bf16, says float32 and answers."""
    from flightllm.config import EngineConfig
    from flightllm.engines import create_engine
    from flightllm.llm.engine import Parameters, Request

    save_model(trainer, tmp_path)
    engine = create_engine(EngineConfig("local", str(tmp_path), 4, {"device": "cpu"}))
    request = Request(0, "Hello", Parameters(max_tokens=2), "ai_gen", "", ())
    [completion] = engine.generate(iter([request]), lambda: False)
    engine.close()
    assert completion.error is None
    assert engine.revision.endswith("float32")


def test_orthogonal() -> None:
    """Singular values end near one, whatever they were, for wide and tall matrices."""
    torch.manual_seed(0)
    for shape in ((2, 8, 20), (3, 20, 8)):
        values = torch.linalg.svdvals(orthogonal(torch.randn(shape) * 100))
        assert 0.5 < float(values.min()) <= float(values.max()) < 1.5


def test_an_untrained_model_already_copies(trainer: Trainer) -> None:
    """Said twice, most of a run of random tokens is foretold the second time; without these heads none would be."""
    rng = random.Random(1)
    said = torch.tensor([rng.sample(range(10, VOCABULARY), 40) for _ in range(8)])
    ids = torch.cat([said, said], dim=1)
    with torch.no_grad():
        foretold = trainer.model(ids).logits.argmax(-1)[:, 40:-1]
    assert float((foretold == said[:, 1:]).float().mean()) > 0.6
