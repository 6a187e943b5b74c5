import pytest

from luong.config import TrainingConfig
from luong.training.schedule import Schedule


def rates(updates, *, epoch=1, planned=None, **settings):
    schedule = Schedule(TrainingConfig(learning_rate=1.0, **settings))
    return [schedule.rate(update, epoch, planned) for update in updates]


@pytest.mark.parametrize(
    "schedule", ["constant", "inverse-square-root", "linear", "halving", "plateau"]
)
def test_warm_up_rises_linearly_to_the_full_rate(schedule):
    found = rates(range(1, 6), schedule=schedule, warmup_updates=5, planned=100)
    assert found == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])


def test_constant():
    assert rates([1, 10**6], schedule="constant", epoch=50) == [1.0, 1.0]


def test_inverse_square_root():
    found = rates([1, 4, 16, 64], schedule="inverse-square-root", warmup_updates=4)
    assert found == pytest.approx([0.25, 1.0, 0.5, 0.25])
    # Without warm-up it falls from the first update on.
    assert rates([1, 4, 100], schedule="inverse-square-root") == pytest.approx([1.0, 0.5, 0.1])


def test_linear_falls_to_almost_nothing_at_the_last_planned_update():
    found = rates(range(1, 12), schedule="linear", planned=10)
    assert found == pytest.approx([1, 1, 1, 1, 1, 1, 0.8, 0.6, 0.4, 0.2, 0])
    assert rates([1000], schedule="linear", planned=1000)[0] == pytest.approx(1 / 500)
    found = rates(range(1, 6), schedule="linear", decay_start=0.0, planned=5)
    assert found == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2])


def test_linear_is_constant_while_nothing_is_planned():
    assert rates([1, 10**6], schedule="linear") == [1.0, 1.0]
    assert Schedule(TrainingConfig(schedule="linear")).needs_plan
    assert not Schedule(TrainingConfig(schedule="halving")).needs_plan


@pytest.mark.parametrize("decay_start", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("planned", [1, 2, 3])
def test_linear_over_very_few_updates_stays_between_zero_and_the_full_rate(planned, decay_start):
    found = rates(
        range(1, planned + 1), schedule="linear", planned=planned, decay_start=decay_start
    )
    assert all(0 < rate <= 1 for rate in found)


def test_halving_as_in_luong_2015():
    # Section 4.1: "we train for 10 epochs; after 5 epochs, we begin to halve the learning rate
    # every epoch".
    schedule = Schedule(TrainingConfig(learning_rate=1.0, schedule="halving", optimizer="sgd"))
    found = [schedule.rate(update=100 * epoch, epoch=epoch, planned=None) for epoch in range(1, 11)]
    assert found == [1, 1, 1, 1, 1, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32]


def test_plateau_cuts_after_its_patience_and_waits_again():
    schedule = Schedule(
        TrainingConfig(
            learning_rate=1.0, schedule="plateau", plateau_patience=2, plateau_factor=0.1
        )
    )
    found = []
    for improved in (True, False, False, True, False, False, False, False, False, False):
        schedule.observe(improved)
        found.append(schedule.rate(update=1, epoch=1, planned=None))
    assert found == pytest.approx([1, 1, 1, 1, 1, 1, 0.1, 0.1, 0.1, 0.01])


def test_without_patience_plateau_cuts_at_each_validation_that_is_no_better():
    schedule = Schedule(TrainingConfig(learning_rate=1.0, schedule="plateau", plateau_patience=0))
    for improved in (True, False, True, True, False):
        schedule.observe(improved)
    assert schedule.rate(update=1, epoch=1, planned=None) == 0.25


def test_validations_do_not_move_the_other_schedules():
    schedule = Schedule(TrainingConfig(learning_rate=1.0, schedule="constant"))
    for _ in range(20):
        schedule.observe(improved=False)
    assert schedule.rate(update=1, epoch=1, planned=None) == 1.0
