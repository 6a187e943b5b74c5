"""One loader for every kind of picture; Pillow writes them here, and the values are known."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from luong.errors import UserError
from luong.pictures import decode_picture, fitted, read_picture


def encoded(image, kind="PNG", **options):
    buffer = BytesIO()
    image.save(buffer, format=kind, **options)
    return buffer.getvalue()


def gradient(dtype=np.uint8, most=255):
    return np.linspace(0, most, 64).astype(dtype).reshape(8, 8)


def test_grey_becomes_three_equal_colours():
    values = gradient()
    found = decode_picture(encoded(Image.fromarray(values)), 8)
    assert found.dtype == np.uint8
    assert np.array_equal(found, np.repeat(values[..., None], 3, 2))


def test_black_and_white():
    image = Image.fromarray(gradient() > 100)
    assert image.mode == "1"
    found = decode_picture(encoded(image), 8)
    assert np.array_equal(found[..., 0] == 255, gradient() > 100)
    assert set(found.ravel()) == {0, 255}


def test_a_transparent_colour_of_a_palette_shows_white():
    image = Image.new("P", (8, 8), 1)
    image.putpalette([10, 20, 30, 200, 0, 0])
    image.paste(0, (0, 0, 4, 8))
    found = decode_picture(encoded(image, transparency=0), 8)
    assert np.array_equal(np.unique(found[:, :4].reshape(-1, 3), axis=0), [[255, 255, 255]])
    assert np.array_equal(np.unique(found[:, 4:].reshape(-1, 3), axis=0), [[200, 0, 0]])
    opaque = decode_picture(encoded(image), 8)
    assert opaque[0, 0].tolist() == [10, 20, 30]


@pytest.mark.parametrize(("alpha", "expected"), [(0, 255), (255, 0), (51, 204)])
@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_alpha_is_laid_on_white(mode, alpha, expected):
    image = Image.new(mode, (8, 8), (0,) * (len(mode) - 1) + (alpha,))
    assert np.unique(decode_picture(encoded(image), 8)).tolist() == [expected]


def test_cmyk():
    image = Image.new("CMYK", (16, 16), (0, 255, 255, 0))  # no cyan, all else: red
    red = decode_picture(encoded(image, "JPEG"), 16).astype(int)
    assert abs(red - [255, 0, 0]).max() <= 4


def test_sixteen_bits_are_scaled_and_not_clipped():
    values = gradient(np.uint16, 65535)
    image = Image.fromarray(values)
    assert image.mode == "I;16"
    found = decode_picture(encoded(image), 8)
    assert np.array_equal(found[..., 1], np.rint(values / 257))
    assert len(np.unique(found)) == 64


def test_a_photograph_is_turned_upright():
    values = np.zeros((8, 8, 3), np.uint8)
    values[:, :4] = 255  # the left half is white
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise by 90 degrees: left becomes top
    found = decode_picture(encoded(Image.fromarray(values), exif=exif.tobytes()), 8)
    assert found[:4].min() == 255
    assert found[4:].max() == 0


@pytest.mark.parametrize("kind", ["WEBP", "GIF"])
def test_of_an_animation_the_first_frame(kind):
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue", "lime")]
    options = {"lossless": True} if kind == "WEBP" else {}
    data = encoded(frames[0], kind, save_all=True, append_images=frames[1:], **options)
    assert decode_picture(data, 8)[4, 4].tolist() == [255, 0, 0]


def test_sides_keep_their_ratio_and_the_rest_is_white():
    wide = fitted(Image.new("RGB", (40, 20), "black"), 8)
    assert wide[2:6].max() == 0
    assert wide[:2].min() == wide[6:].min() == 255
    tall = fitted(np.zeros((30, 10, 3), np.uint8), 9)
    assert tall[:, 3:6].max() == 0
    assert tall[:, :3].min() == tall[:, 6:].min() == 255
    assert fitted(Image.new("RGB", (1000, 1), "black"), 8).shape == (8, 8, 3)
    # A small one is enlarged.
    assert fitted(Image.new("RGB", (2, 2), "black"), 8).max() == 0


def test_a_picture_of_the_right_size_is_not_touched():
    values = np.random.default_rng(1).integers(0, 256, (16, 16, 3), np.uint8)
    assert np.array_equal(decode_picture(encoded(Image.fromarray(values)), 16), values)


def test_what_is_no_picture_is_named(tmp_path):
    (tmp_path / "text.png").write_text("not a picture")
    with pytest.raises(UserError, match=r"text\.png is not a picture, or of another kind than PNG"):
        read_picture(tmp_path / "text.png", 8)
    (tmp_path / "empty.png").touch()
    with pytest.raises(UserError, match=r"empty\.png is empty\."):
        read_picture(tmp_path / "empty.png", 8)
    with pytest.raises(UserError, match=r"gone\.png does not exist\."):
        read_picture(tmp_path / "gone.png", 8)
    with pytest.raises(UserError, match=r"cannot be read: Is a directory\."):
        read_picture(tmp_path, 8)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_a_file_that_is_cut_short_is_named(kind, tmp_path):
    noise = np.random.default_rng(1).integers(0, 256, (64, 64, 3), np.uint8)
    data = encoded(Image.fromarray(noise), kind)
    (tmp_path / "cut").write_bytes(data[: len(data) // 2])
    with pytest.raises(UserError, match=r"cut is (damaged or cut short \(.+\)|not a picture.+)\."):
        read_picture(tmp_path / "cut", 8)


@pytest.mark.parametrize("limit", [60, 20])  # Pillow warns of the one, and refuses the other
def test_too_many_pixels(limit, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    with pytest.raises(ValueError, match=f"has .* pixels, and a picture of more than {limit}"):
        decode_picture(encoded(Image.new("L", (8, 8))), 8)
