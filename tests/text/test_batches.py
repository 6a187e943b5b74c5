import threading
import time
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from luong.config import PairFiles
from luong.text.batches import Batch, BatchLoader, collate, plan
from luong.text.corpus import ParallelCorpus
from luong.text.dataset import Dataset
from luong.text.vocabulary import BEGIN, END, PAD


@pytest.fixture(scope="module")
def dataset(corpus, tokenizers):
    return Dataset(corpus, tokenizers["unigram"], tokenizers["bpe"], max_length=250)


def load(dataset, batches, **options):
    return BatchLoader(partial(collate, dataset), batches, **options)


def plan_of(dataset, batch_tokens=2000, seed=1, epoch=0):
    return plan(
        dataset.source_lengths,
        dataset.target_lengths,
        batch_tokens=batch_tokens,
        seed=seed,
        epoch=epoch,
    )


def positions_per_token(batches, sources, targets):
    padded = sum(len(batch) * int(sources[batch].max() + targets[batch].max()) for batch in batches)
    return padded / int(sources.sum() + targets.sum())


@given(
    st.lists(st.tuples(st.integers(2, 300), st.integers(2, 60)), min_size=1, max_size=80),
    st.integers(1, 200),
    st.integers(0, 5),
)
def test_a_plan_holds_each_pair_once_within_the_budget(lengths, batch_tokens, epoch):
    sources, targets = np.array(lengths, np.uint16).T
    batches = plan(sources, targets, batch_tokens=batch_tokens, seed=3, epoch=epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    for batch in batches:
        if len(batch) > 1:
            assert len(batch) * int(targets[batch].max()) <= batch_tokens
            assert len(batch) * int(sources[batch].max()) <= 4 * batch_tokens


def test_a_plan_depends_on_seed_and_epoch_alone(dataset):
    def lists(**arguments):
        return [batch.tolist() for batch in plan_of(dataset, **arguments)]

    first = lists()
    assert lists() == first
    assert lists(epoch=1) != first
    assert lists(seed=2) != first
    # Not only the order of the batches differs, but who shares one.
    assert {tuple(sorted(batch)) for batch in lists(epoch=1)} != {
        tuple(sorted(batch)) for batch in first
    }


def test_batches_are_shuffled(dataset):
    longest = [int(dataset.target_lengths[batch].max()) for batch in plan_of(dataset, 500)]
    assert longest not in (sorted(longest), sorted(longest, reverse=True))


@pytest.mark.parametrize("kind", ["word", "character", "unigram"])
def test_padding_is_low_on_the_demo_corpus(corpus, tokenizers, kind):
    dataset = Dataset(corpus, tokenizers[kind], tokenizers[kind], max_length=250)
    sources, targets = dataset.source_lengths.astype(int), dataset.target_lengths.astype(int)
    assert positions_per_token(plan_of(dataset), sources, targets) <= 1.1


def test_padding_is_low_on_long_sentences():
    random = np.random.default_rng(0)
    targets = np.clip(random.lognormal(3.0, 0.5, 5000), 2, 250).astype(int)
    sources = np.clip(targets * random.normal(1.0, 0.15, 5000), 2, 250).astype(int)
    batches = plan(sources, targets, batch_tokens=2000, seed=1, epoch=0)
    assert positions_per_token(batches, sources, targets) <= 1.1


@pytest.mark.parametrize("batch_tokens", [500, 1000, 2000, 4000])
def test_padding_is_low_where_one_side_says_little_of_the_other(batch_tokens):
    """Lengths as of 29,000 captions in subwords: 16 a side, short tails, loosely tied."""
    random = np.random.default_rng(0)
    targets = np.clip(random.lognormal(2.71, 0.3, 29_000), 4, 53).astype(int)
    sources = np.clip(targets * random.lognormal(0.02, 0.18, 29_000), 3, 56).astype(int)
    batches = plan(sources, targets, batch_tokens=batch_tokens, seed=1, epoch=0)
    for side in (sources, targets):
        padded = sum(len(batch) * int(side[batch].max()) for batch in batches)
        assert padded / int(side.sum()) <= 1.1


def test_collate_pads_and_marks(dataset):
    positions = [5, 4000, 17]
    batch = collate(dataset, positions)
    sources = [
        [*dataset.source_tokenizer.encode(dataset.corpus[line][0]).ids, END] for line in positions
    ]
    targets = [dataset.target_tokenizer.encode(dataset.corpus[line][1]).ids for line in positions]
    width = max(map(len, targets)) + 1
    for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
        padding = [PAD] * (width - len(target) - 1)
        assert batch.source[row].tolist()[: len(source)] == source
        assert not batch.source[row, len(source) :].any()
        assert batch.target_input[row].tolist() == [BEGIN, *target, *padding]
        assert batch.target_output[row].tolist() == [*target, END, *padding]
    assert batch.source.shape == (3, max(map(len, sources)))
    assert batch.source_lengths.tolist() == [len(source) for source in sources]
    assert batch.indices.tolist() == positions
    assert batch.source_tokens == sum(map(len, sources))
    assert batch.target_tokens == sum(map(len, targets)) + 3
    assert {tensor.dtype for tensor in batch[:5]} == {torch.int64}
    assert batch.copies is None


def test_indices_are_lines_of_the_corpus(tmp_path, tokenizers):
    path = tmp_path / "pairs.tsv"
    path.write_text("\tblank\nTom\tTom\n")
    tokenizer = tokenizers["character"]
    dataset = Dataset(ParallelCorpus.open(PairFiles(file=path)), tokenizer, tokenizer, 9)
    assert collate(dataset, [0]).indices.tolist() == [1]


def same(first: Batch, second: Batch) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first[:5], second[:5], strict=True))


def test_the_loader_gives_the_plan_in_order_from_a_position(dataset):
    batches = plan_of(dataset)
    with load(dataset, batches, position=len(batches) - 6, prefetch=2) as loader:
        loaded = list(loader)
    assert len(loaded) == 6
    for batch, positions in zip(loaded, batches[-6:], strict=True):
        assert same(batch, collate(dataset, positions))
    assert list(load(dataset, batches, position=len(batches))) == []
    with pytest.raises(ValueError, match="position"):
        load(dataset, batches, position=len(batches) + 1)


def test_errors_of_the_thread_reach_the_consumer(dataset):
    batches = [np.array([0]), np.array([10**9]), np.array([1])]
    loader = load(dataset, batches)
    assert next(loader).indices.tolist() == [0]
    with pytest.raises(IndexError):
        next(loader)
    with pytest.raises(StopIteration):
        next(loader)


def test_the_thread_keeps_few_batches_and_ends_when_closed(dataset):
    made = []

    def make(positions):
        made.append(1)
        return collate(dataset, positions)

    before = threading.active_count()
    with BatchLoader(make, plan_of(dataset, 200), prefetch=3) as loader:
        next(loader)
        # One taken, three waiting, one in hand.
        patience = time.monotonic() + 10
        while len(made) < 5 and time.monotonic() < patience:
            time.sleep(0.01)
        time.sleep(0.15)
        assert len(made) == 5
    assert threading.active_count() == before
    with pytest.raises(StopIteration):
        next(loader)


def test_waiting_is_measured(dataset):
    def slow(positions):
        time.sleep(0.1)
        return collate(dataset, positions)

    with BatchLoader(slow, plan_of(dataset)[:2]) as loader:
        list(loader)
    assert loader.waited >= 0.15
