"""The hierarchical network against a loop over documents, sentences and words by hand."""

import pytest
import torch

from luong.config import HierarchyConfig
from luong.models import HierarchicalClassifier

VOCABULARY, LABELS = 12, 3
DOCUMENTS = [[[5, 6, 7], [8, 9]], [[4]], [], [[], [10, 11, 4, 5], []]]
SIZES = {"embedding_size": 4, "hidden_size": 6, "dropout": 0.0}


def make_model(**options):
    model = HierarchicalClassifier(HierarchyConfig(**{**SIZES, **options}), VOCABULARY, LABELS)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-0.8, 0.8)
    return model.double().eval()


def batch(documents, width=0, filler=0):
    sentences = [sentence for document in documents for sentence in document]
    width = max([width, *map(len, sentences)])
    rows = [sentence + [filler] * (width - len(sentence)) for sentence in sentences]
    return (
        torch.tensor(rows, dtype=torch.long).view(len(rows), width),
        torch.tensor([len(sentence) for sentence in sentences], dtype=torch.long),
        torch.tensor([len(document) for document in documents]),
    )


def gru(cell, inputs):
    """The states of a GRU after each input, as Cho 2014 has them in torch's order of gates."""
    weights = (cell.weight_ih_l0, cell.weight_hh_l0, cell.bias_ih_l0, cell.bias_hh_l0)
    of_input, of_state, input_bias, state_bias = (weight.chunk(3) for weight in weights)
    state = torch.zeros(cell.hidden_size, dtype=torch.float64)
    states = []
    for x in inputs:
        i = [w @ x + b for w, b in zip(of_input, input_bias, strict=True)]
        h = [w @ state + b for w, b in zip(of_state, state_bias, strict=True)]
        reset, update = torch.sigmoid(i[0] + h[0]), torch.sigmoid(i[1] + h[1])
        state = (1 - update) * torch.tanh(i[2] + reset * h[2]) + update * state
        states.append(state)
    return states


def pooled(pool, vectors):
    """Equations 5 to 7 (and 8 to 10) of Yang 2016 for one sequence: its vector and weights."""
    if not vectors:
        return torch.zeros(6, dtype=torch.float64), []
    forwards, backwards = pool.encoder.layers[0]
    there = gru(forwards, vectors)
    back = gru(backwards, vectors[::-1])[::-1]
    states = [torch.cat(pair) for pair in zip(there, back, strict=True)]
    linear, (query,) = pool.attention.hidden, pool.attention.queries
    scores = [query @ torch.tanh(linear.weight @ state + linear.bias) for state in states]
    powers = [torch.exp(score) for score in scores]
    weights = [power / sum(powers) for power in powers]
    return sum(w * state for w, state in zip(weights, states, strict=True)), weights


def by_hand(model, document):
    """Logits of one document, and the weights of its sentences and of their words."""
    vectors, of_words = [], []
    for sentence in document:
        vector, weights = pooled(model.words, [model.embedding.weight[word] for word in sentence])
        vectors.append(vector)
        of_words.append(weights)
    vector, of_sentences = pooled(model.sentences, vectors)
    return model.output.weight @ vector + model.output.bias, of_sentences, of_words


@torch.no_grad()
def test_the_network_equals_a_loop_by_hand():
    model = make_model()
    found = model(*batch(DOCUMENTS), need_weights=True)
    row = 0
    for index, document in enumerate(DOCUMENTS):
        logits, of_sentences, of_words = by_hand(model, document)
        torch.testing.assert_close(found.logits[index], logits)
        shares = found.sentence_weights[index]
        torch.testing.assert_close(shares[: len(document)].tolist(), list(map(float, of_sentences)))
        assert not shares[len(document) :].any()
        for sentence, weights in zip(document, of_words, strict=True):
            expected = list(map(float, weights))
            assert found.word_weights[row, : len(sentence)].tolist() == pytest.approx(expected)
            assert not found.word_weights[row, len(sentence) :].any()
            row += 1


def test_gradients_equal_those_of_the_loop():
    model = make_model()
    mix = torch.randn(len(DOCUMENTS), LABELS, dtype=torch.float64)
    parameters = list(model.parameters())
    found = torch.autograd.grad((model(*batch(DOCUMENTS)).logits * mix).sum(), parameters)
    loop = sum(
        (by_hand(model, one)[0] * row).sum() for one, row in zip(DOCUMENTS, mix, strict=True)
    )
    for (name, _), one, other in zip(
        model.named_parameters(), found, torch.autograd.grad(loop, parameters), strict=True
    ):
        torch.testing.assert_close(one, other, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("encoder", ["recurrent", "convolutional", "mean", "self-attention"])
def test_padding_and_neighbours_change_nothing(encoder):
    model = make_model(encoder=encoder, sentence_encoder=encoder, heads=2)
    parameters = list(model.parameters())

    def outcome(*arguments):
        logits = model(*arguments).logits
        return logits, torch.autograd.grad(logits.square().sum(), parameters, allow_unused=True)

    together, gradients = outcome(*batch(DOCUMENTS))
    for index, document in enumerate(DOCUMENTS):
        alone = model(*batch([document])).logits
        torch.testing.assert_close(alone, together[index : index + 1])
    wider, wider_gradients = outcome(*batch(DOCUMENTS, width=9, filler=7))
    torch.testing.assert_close(wider, together)
    for one, other in zip(gradients, wider_gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_empty_documents_have_the_labels_of_the_bias():
    model = make_model()
    for documents in ([[]], [[], []], [[[]]], [[[], []], []]):
        found = model(*batch(documents), need_weights=True)
        if documents != [[[]]] and documents != [[[], []], []]:
            for logits in found.logits:
                assert torch.equal(logits, model.output.bias)
        assert torch.isfinite(found.logits).all()
        gradients = torch.autograd.grad(found.logits.sum(), model.output.bias)
        assert gradients[0].tolist() == [len(documents)] * LABELS
    # An empty sentence is a vector of zeros, as the loop has it.
    torch.testing.assert_close(model(*batch([[[], []]])).logits[0], by_hand(model, [[], []])[0])


def test_word_dropout_reads_words_as_unknown():
    model = make_model(word_dropout=0.999)
    arguments = batch(DOCUMENTS[:2])
    model.train()
    found = model(*arguments).logits
    model.eval()
    unknown = torch.ones_like(arguments[0])
    torch.testing.assert_close(found, model(unknown, *arguments[1:]).logits)
    assert not torch.equal(found, model(*arguments).logits)


def test_counts_must_belong_to_the_rows():
    model = make_model()
    words, counts, _ = batch(DOCUMENTS[:2])
    with pytest.raises(ValueError, match="sum to 2, but words have 3 rows"):
        model(words, counts, torch.tensor([1, 1]))
