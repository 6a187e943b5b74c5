from luong.reproduce.budget import seconds_per_update


def test_an_update_takes_time_and_leaves_nothing(toy_config, tmp_path):
    config = toy_config()
    assert 0 < seconds_per_update(config) < 60
    assert not config.output.exists()
