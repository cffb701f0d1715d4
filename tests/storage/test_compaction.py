"""Which files become one: small ones at once, larger ones by the dozen."""

from flightllm.storage.compaction import files_to_merge


def test_levels() -> None:
    """Files at the end alone count; those of a larger level take the smaller ones after them along."""
    small, middle, large, huge = 1_000, 500_000, 5_000_000, 50_000_000
    assert files_to_merge([]) == 0
    assert files_to_merge([small]) == 0
    assert files_to_merge([huge, small, small]) == 2
    assert files_to_merge([small, small, huge]) == 0
    assert files_to_merge([huge, *[middle] * 14]) == 0
    assert files_to_merge([huge, *[middle] * 15, small]) == 16
    assert files_to_merge([*[large] * 3, *[middle] * 15, small]) == 19
    assert files_to_merge([huge] * 100) == 0


def test_few_files_and_little_rewriting() -> None:
    """Adding 10,000 files of 40 KiB leaves few, and writes each byte a few times."""
    sizes: list[int] = []
    written = 0
    for _ in range(10_000):
        sizes.append(40 << 10)
        merged = files_to_merge(sizes)
        if merged > 1:
            sizes[-merged:] = [sum(sizes[-merged:])]
            written += sizes[-1]
        assert len(sizes) < 60
    assert written < 10 * 10_000 * (40 << 10)
