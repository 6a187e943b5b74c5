"""Who serves a call: argument, then context manager, then environment, then auto."""

import importlib
import logging
import sys
import threading
from types import ModuleType

import pytest
import torch

from luong import kernels
from luong.attention import Attention
from luong.errors import UserError
from luong.kernels import Backend, choose, dispatch, use_backend


def refuses(operation, device_type, dtype):
    return "it has no such engine"


@pytest.fixture
def backends(monkeypatch):
    """Three backends: `absent` always refuses, `other` answers 42, `reference` is the real one."""
    other = ModuleType("luong_test_other")
    other.dot_scores = lambda query, key: torch.tensor(42.0)
    monkeypatch.setitem(sys.modules, other.__name__, other)
    absent = Backend("absent", "luong_test_absent", refuses)
    serving = Backend("other", other.__name__, lambda *_: None)
    reference = next(backend for backend in kernels.BACKENDS if backend.name == "reference")
    monkeypatch.setattr(dispatch, "BACKENDS", (absent, reference, serving))
    monkeypatch.setattr(dispatch, "_served", {})


def chosen(backend=None):
    return choose("dot_scores", "cpu", torch.float32, backend).backend


@pytest.mark.usefixtures("backends")
class TestOrder:
    def test_auto_takes_the_first_that_serves_and_says_why_not_the_others(self):
        choice = choose("dot_scores", "cpu", torch.float32)
        assert choice == ("reference", {"absent": "it has no such engine"})

    def test_each_rule_wins_over_the_next(self, monkeypatch):
        monkeypatch.setenv("LUONG_BACKEND", "other")
        assert chosen() == "other"
        with use_backend("reference"):
            assert chosen() == "reference"
            assert chosen("other") == "other"
            with use_backend("auto"):
                assert chosen() == "reference"
            with use_backend("other"):
                assert chosen() == "other"
            assert chosen() == "reference"
        assert chosen() == "other"

    def test_an_empty_variable_is_none(self, monkeypatch):
        monkeypatch.setenv("LUONG_BACKEND", "")
        assert chosen() == "reference"

    def test_the_chosen_one_computes(self):
        ones = torch.ones(1, 1, 3)
        assert kernels.dot_scores(ones, ones).item() == 3
        assert kernels.dot_scores(ones, ones, backend="other").item() == 42
        with use_backend("other"):
            assert kernels.dot_scores(ones, ones).item() == 42

    def test_an_error_inside_restores_the_setting(self):
        with pytest.raises(RuntimeError), use_backend("other"):
            raise RuntimeError
        assert chosen() == "reference"


@pytest.mark.usefixtures("backends")
class TestRefusal:
    def test_a_named_backend_that_refuses_raises_with_the_reason(self, monkeypatch):
        reason = r"dot_scores on cpu in torch.float32: absent: it has no such engine"
        with pytest.raises(UserError, match=reason):
            kernels.dot_scores(torch.ones(1, 1, 1), torch.ones(1, 1, 1), backend="absent")
        with use_backend("absent"), pytest.raises(UserError, match=reason):
            kernels.dot_scores(torch.ones(1, 1, 1), torch.ones(1, 1, 1))
        monkeypatch.setenv("LUONG_BACKEND", "absent")
        with pytest.raises(UserError, match=reason):
            chosen()

    def test_unknown_names_give_the_nearest(self, monkeypatch):
        wanted = "'refrence' is not a kernel backend. Did you mean 'reference'?"
        with pytest.raises(UserError, match=wanted):
            chosen("refrence")
        with pytest.raises(UserError, match=wanted), use_backend("refrence"):
            pass
        monkeypatch.setenv("LUONG_BACKEND", "refrence")
        with pytest.raises(UserError, match=wanted):
            chosen()

    def test_auto_logs_its_choice_once_a_kind_of_call(self, caplog):
        caplog.set_level(logging.DEBUG, "luong.kernels")
        ones = torch.ones(1, 1, 1)
        for _ in range(3):
            kernels.dot_scores(ones, ones)
        assert [record.getMessage() for record in caplog.records] == [
            "dot_scores on cpu in torch.float32: reference; not absent: it has no such engine"
        ]
        kernels.dot_scores(ones.double(), ones.double())
        assert len(caplog.records) == 2


@pytest.mark.usefixtures("backends")
def test_the_context_manager_holds_for_its_own_thread_alone():
    seen = {}
    both_inside = threading.Barrier(2, timeout=10)

    def work(name):
        before = chosen()
        with use_backend(name):
            both_inside.wait()
            seen[name] = (before, chosen())
            both_inside.wait()

    with use_backend("other"):
        threads = [threading.Thread(target=work, args=(name,)) for name in ("reference", "other")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert chosen() == "other"
    assert seen == {"reference": ("reference", "reference"), "other": ("reference", "other")}


def test_every_operation_is_served_by_the_reference():
    reference = importlib.import_module("luong.kernels.reference")
    for operation in kernels.OPERATIONS:
        assert choose(operation, "cpu", torch.float64).backend == "reference"
        assert callable(getattr(reference, operation))
        assert callable(getattr(kernels, operation))


def test_every_operation_is_served_by_the_kernels_of_the_cpu():
    cpu = importlib.import_module("luong.kernels.cpu")
    for operation in kernels.OPERATIONS:
        assert choose(operation, "cpu", torch.float16).backend == "cpu"
        assert callable(getattr(cpu, operation))


@pytest.mark.parametrize(
    ("score", "without_weights", "with_weights"),
    [
        ("additive", {"additive_attention"}, {"additive_scores", "softmax_context"}),
        ("concat", {"additive_attention"}, {"additive_scores", "softmax_context"}),
        ("general", {"dot_attention"}, {"dot_scores", "softmax_context"}),
    ],
)
def test_layers_make_weights_only_for_those_who_ask(
    score, without_weights, with_weights, caplog, monkeypatch
):
    caplog.set_level(logging.DEBUG, "luong.kernels")
    layer = Attention(4, 4, score=score)
    memory, query = layer.prepare(torch.randn(1, 3, 4)), torch.randn(1, 2, 4)
    for need_weights, operations in [(False, without_weights), (True, with_weights)]:
        monkeypatch.setattr(dispatch, "_served", {})
        caplog.clear()
        layer(query, memory, need_weights=need_weights)
        served = {record.args[0] for record in caplog.records}
        assert served - {"few_rows_product"} == operations
