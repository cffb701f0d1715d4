"""Which files become one: small ones at once, larger ones by the dozen."""

from flightllm.storage.compaction import files_to_merge

_PLENTY = 1 << 40


def test_levels() -> None:
    """Files at the end alone count; those of a larger level take the smaller ones after them along."""
    small, middle, large, huge = 1_000, 500_000, 5_000_000, 50_000_000
    assert files_to_merge([], _PLENTY) == 0
    assert files_to_merge([small], _PLENTY) == 0
    assert files_to_merge([huge, small, small], _PLENTY) == 2
    assert files_to_merge([small, small, huge], _PLENTY) == 0
    assert files_to_merge([huge, *[middle] * 14], _PLENTY) == 0
    assert files_to_merge([huge, *[middle] * 15, small], _PLENTY) == 16
    assert files_to_merge([*[large] * 3, *[middle] * 15, small], _PLENTY) == 19
    assert files_to_merge([huge] * 100, _PLENTY) == 0


def test_few_files_and_little_rewriting() -> None:
    """Adding 10,000 files of 40 KiB leaves few, and writes each byte a few times."""
    sizes: list[int] = []
    written = 0
    for _ in range(10_000):
        sizes.append(40 << 10)
        merged = files_to_merge(sizes, _PLENTY)
        if merged > 1:
            sizes[-merged:] = [sum(sizes[-merged:])]
            written += sizes[-1]
        assert len(sizes) < 60
    assert written < 10 * 10_000 * (40 << 10)


def test_what_does_not_fit_stays() -> None:
    """With little room the files of a lower level are merged, and with less room nothing is."""
    small, middle = 1_000, 500_000
    sizes = [*[middle] * 15, small, small]
    assert files_to_merge(sizes, 16 * middle) == 17
    assert files_to_merge(sizes, 2 * middle) == 2
    assert files_to_merge(sizes, small) == 0
