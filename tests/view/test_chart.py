from luong.view.chart import line_chart


def test_a_line_for_each_system(tmp_path):
    series = {f"system {n}": [(1, 9.0 + n), (2, 3.0)] for n in range(14)}
    path = tmp_path / "chart.png"
    figure = line_chart(
        {**series, "none": []}, x="update", y="perplexity", logarithmic=True, path=path
    )
    assert path.stat().st_size > 1000
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(series)
    assert axes.get_yscale() == "log"
    assert [tuple(line.get_ydata()) for line in axes.lines] == [(9.0 + n, 3.0) for n in range(14)]
    styles = {(line.get_color(), line.get_linestyle(), line.get_marker()) for line in axes.lines}
    assert len(styles) == 14  # none looks like another


def test_no_lines_at_all():
    assert line_chart({}, x="x", y="y").axes[0].get_legend() is None
