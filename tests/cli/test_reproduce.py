from luong.reproduce import luong2015


def test_only_the_table_goes_to_the_standard_output(luong, toy, tmp_path, monkeypatch):
    seen = {}

    def reproduce(corpus, size, minutes, output, console):
        console.print("progress")
        seen.update(corpus=corpus, size=size, minutes=minutes, output=output)
        return "the table" if minutes > 1 else None

    monkeypatch.setattr(luong2015, "reproduce", reproduce)
    output = tmp_path / "out"
    options = ["--data", toy, "--languages", "en-de", "--output", output, "--layers", 2]
    ended = luong("reproduce", "luong2015", *options, "--minutes", 3, "--vocabulary-size", 9)
    assert (ended.code, ended.out) == (0, "the table\n")
    assert ended.error.splitlines()[0] == "progress"
    assert seen["corpus"].source_language == "en"
    assert (seen["minutes"], seen["output"]) == (3.0, output)
    assert seen["size"] == (128, 2, 9, 1)

    ended = luong("reproduce", "luong2015", "--minutes", 1)
    assert (ended.code, ended.out) == (130, "")
    assert ended.error.endswith("Go on with:\n  luong reproduce luong2015 --minutes 1\n")
    assert len(seen["corpus"].sources) == 500  # the demo


def test_other_papers_are_refused(refused):
    assert "Did you mean 'luong2015'?" in refused("reproduce", "luong2016")
