import json

import numpy as np
import pytest
import torch
from PIL import Image

import luong
from luong.errors import UserError
from luong.search import Caption
from luong.search.captioner import NamedPicture


@pytest.fixture(scope="module")
def captioner(trained_captioner):
    return luong.load(trained_captioner)


def test_a_file_an_array_or_a_list(captioner, shapes):
    file = shapes / "dev-0.png"
    one = captioner.caption(file)
    assert (one.source, one.text, one.words) == (str(file), "red square", ["red", "square"])
    assert one.attention.shape == (2, 4, 4)
    assert one.attention.sum((1, 2)).tolist() == pytest.approx([1, 1])
    assert one.score < 0
    array = np.asarray(Image.open(file))
    found = captioner.caption([array, str(file)])
    assert [caption.text for caption in found] == [one.text] * 2
    assert found[0].source == ""
    assert captioner.caption([]) == []
    # Larger pictures are scaled to what the model reads.
    large = captioner.caption(array.repeat(4, 0).repeat(4, 1))
    assert large.picture.shape == (16, 16, 3)
    assert large.text == one.text


def test_batch_mates_change_nothing(captioner, shapes):
    files = [shapes / f"dev-{number}.png" for number in range(16)]
    alone = [captioner.caption(file) for file in files]
    together = captioner.caption(files * 3)
    for place, caption in enumerate(together):
        expected = alone[place % 16]
        assert caption.text == expected.text
        assert caption.score == pytest.approx(expected.score, abs=1e-5)
        assert torch.allclose(caption.attention, expected.attention, atol=1e-5)


def test_greedy_search_follows_the_model(captioner, shapes):
    folder = captioner.folder
    found = captioner.caption(shapes / "dev-3.png", beam_size=1)
    ids = folder.target_tokenizer.ids(found.text)
    assert found.text == "grey square"
    from luong.pictures import normalized

    data = folder.config.data
    source = normalized(found.picture[None], data.mean, data.spread)
    states, weights = folder.model(
        source, torch.tensor([16]), torch.tensor([[2, *ids]]), need_weights=True
    )
    logs = folder.model.output(states).log_softmax(-1)[0]
    logs[:, 1] = -torch.inf  # an unknown word is never written
    assert logs.argmax(-1).tolist() == [*ids, 3]
    assert torch.allclose(weights[0, :2].view(2, 4, 4), found.attention, atol=1e-5)


def test_an_unknown_word_is_never_written(captioner, shapes, monkeypatch):
    bias = captioner.folder.model.output.logits.bias
    with torch.no_grad():
        before = bias[1].item()
        bias[1] = 50.0
        try:
            text = captioner.caption(shapes / "dev-0.png").text
        finally:
            bias[1] = before
    assert text
    assert "<unk>" not in text


def test_what_is_no_picture(captioner, tmp_path):
    (tmp_path / "text.png").write_text("text")
    with pytest.raises(UserError, match=r"text\.png is not a picture"):
        captioner.caption(tmp_path / "text.png")
    with pytest.raises(ValueError, match=r"uint8 of shape \(height, width, 3\), not float64 of"):
        captioner.caption(np.zeros((4, 4, 3)))


def test_a_stream_is_read_as_it_is_needed(captioner):
    taken = 0

    def pictures():
        nonlocal taken
        for number in range(100):
            taken += 1
            yield NamedPicture(str(number), np.zeros((16, 16, 3), np.uint8))

    assert next(captioner.caption_pictures(pictures())).source == "0"
    assert taken < 40


def test_the_picture_for_notebooks(captioner, shapes):
    caption = captioner.caption(shapes / "dev-0.png")
    html = caption._repr_html_()
    assert html.count("<figure") == 3
    assert json.loads(json.dumps(caption.as_object()))["words"] == ["red", "square"]
    evil = Caption("<i>", "<b>", 0.0, ["<b>"], torch.zeros(1, 2, 2), caption.picture)
    assert "<b>" not in evil._repr_html_()
    assert "<i>" not in evil._repr_html_()
