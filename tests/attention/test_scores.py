"""Every score against numbers worked out by hand, its identities, and what it says it costs."""

import math
from pathlib import Path

import pytest
import torch

from luong.attention import SCORES, Attention
from luong.attention.scores import make_score

PAGE = Path(__file__).parents[2] / "docs" / "attention.md"


def scored(score, query, keys):
    """The scores of one query (q) against keys (S, k)."""
    prepared = score.prepare(torch.tensor([keys]))
    scores = score.scores(torch.tensor([[query]]), prepared)
    assert scores.shape == (1, 1, len(keys))
    return scores[0, 0]


def set_parameters(module, **values):
    for name, value in values.items():
        getattr(module, name).data = torch.tensor(value)


def near(*numbers):
    return pytest.approx(numbers, abs=1e-6)


class TestEquations:
    def test_dot(self):
        # [1, 2] . [3, 1] = 3 + 2; [1, 2] . [0, -1] = -2
        scores = scored(make_score("dot", 2, 2), [1.0, 2.0], [[3.0, 1.0], [0.0, -1.0]])
        assert scores.tolist() == near(5, -2)

    def test_scaled_dot(self):
        # 5 / sqrt(2) = 3.5355339; -2 / sqrt(2) = -1.4142136
        scores = scored(make_score("scaled-dot", 2, 2), [1.0, 2.0], [[3.0, 1.0], [0.0, -1.0]])
        assert scores.tolist() == near(3.5355339, -1.4142136)

    def test_general(self):
        # W h_1 = [1 + 6, 2 - 3] = [7, -1], so 1*7 + 2*(-1) = 5
        # W h_2 = [0 + 2, 1 - 1] = [2, 0], so 2
        score = make_score("general", 2, 3)
        set_parameters(score, weight=[[1.0, 0.0, 2.0], [0.0, 1.0, -1.0]])
        assert scored(score, [1.0, 2.0], [[1.0, 2.0, 3.0], [0.0, 1.0, 1.0]]).tolist() == near(5, 2)

    def test_concat(self):
        # W [.5; .5] = [1, 0]: tanh 1 + 2 tanh 0 = .7615942
        # W [.5; 0] = [.5, .5]: 3 tanh .5 = 3 * .4621172 = 1.3863515
        score = make_score("concat", 1, 1, attention_size=2)
        set_parameters(score, weight=[[1.0, 1.0], [1.0, -1.0]], weight_vector=[1.0, 2.0])
        assert scored(score, [0.5], [[0.5], [0.0]]).tolist() == near(0.7615942, 1.3863515)

    def test_additive(self):
        # inside tanh: [.5 + .5, .5 - .5 + .5] = [1, .5]: .7615942 + 2 * .4621172 = 1.6858285
        # inside tanh: [.5 + 0, .5 - 0 + .5] = [.5, 1]: .4621172 + 2 * .7615942 = 1.9853055
        score = make_score("additive", 1, 1, attention_size=2)
        set_parameters(
            score,
            query_weight=[[1.0], [1.0]],
            key_weight=[[1.0], [-1.0]],
            bias=[0.0, 0.5],
            weight_vector=[1.0, 2.0],
        )
        assert scored(score, [0.5], [[0.5], [0.0]]).tolist() == near(1.6858285, 1.9853055)

    def test_location(self):
        # W h = [1, 2, 1 + 2], of which a source of two positions reads the first two
        score = make_score("location", 2, 1, max_length=3)
        set_parameters(score, weight=[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
        assert scored(score, [1.0, 2.0], [[9.0], [-9.0]]).tolist() == near(1, 2)

    def test_none_attends_to_nothing(self, make_layer, make_inputs):
        layer = make_layer("none")
        query, keys, values, lengths = make_inputs(layer)
        context, weights, _ = layer(query, layer.prepare(keys, values, lengths=lengths))
        assert context.shape == (2, 3, 0)
        assert layer.value_size == 0
        assert weights.shape == (2, 3, 5)
        assert not weights.any()

    def test_weights_and_context_of_a_whole_layer(self):
        # scores 5 and 2: weights 1 / (1 + e^-3) = .9525741 and .0474259
        # context .9525741 * [10, 0] + .0474259 * [0, 100] = [9.525741, 4.742587]
        layer = Attention(2, 3, score="general")
        set_parameters(layer.score, weight=[[1.0, 0.0, 2.0], [0.0, 1.0, -1.0]])
        keys = torch.tensor([[[1.0, 2.0, 3.0], [0.0, 1.0, 1.0]]])
        values = torch.tensor([[[10.0, 0.0], [0.0, 100.0]]])
        result = layer(torch.tensor([[[1.0, 2.0]]]), layer.prepare(keys, values))
        assert result.weights[0, 0].tolist() == near(0.9525741, 0.0474259)
        assert result.context[0, 0].tolist() == pytest.approx([9.525741, 4.742587], abs=1e-5)


class TestIdentities:
    def test_the_column_form_of_the_papers(self, make_layer, make_inputs):
        layer = make_layer("general", query_size=4)
        query, keys, values, _ = make_inputs(layer)
        context = layer(query, layer.prepare(keys, values)).context
        for b in range(2):
            columns = keys[b].T @ torch.eye(5, dtype=torch.float64)  # K, one key a column
            energies = columns.T @ layer.score.weight.T @ query[b].T  # K^T W^T Q
            expected = values[b].T @ torch.softmax(energies, dim=0)  # V softmax(K^T W^T Q)
            torch.testing.assert_close(context[b].T, expected)

    @pytest.mark.parametrize("window", ["global", "local-m", "local-p"])
    def test_concat_is_additive_with_its_matrix_split(self, make_layer, make_inputs, window):
        concat, additive = make_layer("concat", window), make_layer("additive", window)
        additive.window = concat.window
        set_parameters(additive.score, bias=[0.0] * 3)
        additive.double()
        additive.score.query_weight.data = concat.score.weight.data[:, :4]
        additive.score.key_weight.data = concat.score.weight.data[:, 4:]
        additive.score.weight_vector.data = concat.score.weight_vector.data
        query, keys, values, lengths = make_inputs(concat)
        one = concat(query, concat.prepare(keys, values, lengths=lengths))
        other = additive(query, additive.prepare(keys, values, lengths=lengths))
        torch.testing.assert_close(one, other)

    @pytest.mark.parametrize("window", ["global", "local-m", "local-p"])
    def test_location_is_dot_with_the_rows_of_w_as_keys(self, make_layer, make_inputs, window):
        location, dot = make_layer("location", window), make_layer("dot", window)
        dot.window = location.window
        query, keys, values, lengths = make_inputs(location, source_length=4)
        rows = location.score.weight[:4].expand(2, -1, -1)
        one = location(query, location.prepare(keys, values, lengths=lengths))
        other = dot(query, dot.prepare(rows, values, lengths=lengths))
        torch.testing.assert_close(one, other)

    def test_location_never_attends_beyond_max_length_and_says_so_once(
        self, make_layer, make_inputs, caplog, monkeypatch
    ):
        monkeypatch.setattr("luong.attention.functional._warned_max_length", set())
        layer = make_layer("location", max_length=3)
        query, keys, values, _ = make_inputs(layer, source_length=5)
        for _ in range(2):
            weights = layer(query, layer.prepare(keys, values)).weights
        assert not weights[..., 3:].any()
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, dtype=torch.float64))
        assert len(caplog.records) == 1
        assert "5 positions" in caplog.text
        assert "knows 3" in caplog.text


class TestErrors:
    @pytest.mark.parametrize("name", ["dot", "scaled-dot"])
    def test_a_dot_product_of_two_sizes_names_both(self, name):
        with pytest.raises(ValueError, match=r"query_size is 4 and key_size is 6.*general"):
            Attention(4, 6, score=name)

    def test_location_needs_max_length(self):
        with pytest.raises(ValueError, match="max_length"):
            Attention(4, 4, score="location")

    @pytest.mark.parametrize(("wrong", "right"), [("aditive", "additive"), ("genral", "general")])
    def test_an_unknown_name_gives_the_nearest(self, wrong, right):
        with pytest.raises(ValueError, match=f"'{wrong}' is not a score.*'{right}'"):
            Attention(4, 4, score=wrong)


# q = 4, k = 5 (4 for dot products), n = 3, max_length 6, S = 6, T = 2. A multiply-add is 2.
# A window of D = 1 sees 3 of the 6 keys, so there are 12 or 6 pairs of query and key.
BY_HAND = {
    "dot": (0, 12 * 8, 6 * 8),
    "scaled-dot": (0, 12 * 8 + 2 * 4, 6 * 8 + 2 * 4),  # queries divided once
    "general": (4 * 5, 6 * 40 + 12 * 8, 6 * 40 + 6 * 8),  # W k of six keys, then dots
    # W (3, 9) and v: keys 6 * 30, queries 2 * 24; a pair: 3 adds, 3 tanh, 3 multiply-adds
    "concat": (27 + 3, 180 + 48 + 12 * 12, 180 + 48 + 6 * 12),
    # the same, and b: 3 parameters, 3 more adds a query
    "additive": (12 + 15 + 3 + 3, 180 + 54 + 12 * 12, 180 + 54 + 6 * 12),
    "location": (6 * 4, 12 * 8, 6 * 8),
    "none": (0, 0, 0),
}


class TestCost:
    @pytest.mark.parametrize("name", SCORES)
    def test_against_a_count_by_hand(self, name):
        key_size = 4 if name.endswith("dot") else 5
        score = make_score(name, 4, key_size, attention_size=3, max_length=6)
        parameters, everywhere, in_window = BY_HAND[name]
        assert score.cost(6, 2) == (parameters, everywhere)
        assert score.cost(6, 2, half_width=1) == (parameters, in_window)
        assert score.cost(6, 2, half_width=9) == (parameters, everywhere)
        assert parameters == sum(
            p.numel() for p in Attention(4, key_size, score=score).parameters()
        )

    def test_the_table_of_the_page(self):
        rows = {}
        for line in PAGE.read_text(encoding="utf-8").split("## What it costs")[1].splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if cells[0].strip("`") in SCORES:
                rows[cells[0].strip("`")] = [int(cell.replace(",", "")) for cell in cells[1:]]
        assert list(rows) == list(SCORES)
        for name, row in rows.items():
            score = make_score(name, 512, 512, attention_size=512, max_length=50)
            parameters, operations = score.cost(50, 50)
            assert row == [parameters, operations, score.cost(50, 50, half_width=10).operations]


def test_scaled_dot_scales_by_the_key_size():
    query, keys = torch.randn(1, 2, 9), torch.randn(1, 3, 9)
    dot, scaled = make_score("dot", 9, 9), make_score("scaled-dot", 9, 9)
    torch.testing.assert_close(
        scaled.scores(query, scaled.prepare(keys)) * math.sqrt(9),
        dot.scores(query, dot.prepare(keys)),
    )
