"""Images with classes: MNIST, Fashion-MNIST, CIFAR-10, and a generator of similar images per class.

Letters: N images.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedkg.data.sets.dataset import DataSet, draw_samples, generator_source, seeded_generator
from fedkg.data.sets.numeric_table_reader import find_files, read_decompressed
from fedkg.errors import MissingExtra, TableError

DIGITS = tuple("0123456789")
CLOTHES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
THINGS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
GENERATED = 2_000
U8 = NDArray[np.uint8]


def load_mnist(path: str | Path, seed: int, size: int | None) -> DataSet:
    """Load MNIST (LeCun, Cortes and Burges) from a folder with the four IDX files: 60,000 training
    and 10,000 test images.
    """
    return _idx("mnist", path, DIGITS, seed, size)


def load_fashion(path: str | Path, seed: int, size: int | None) -> DataSet:
    """Load Fashion-MNIST (Xiao, Rasul and Vollgraf, 2017) from a folder with four IDX files, in the
    form of MNIST.
    """
    return _idx("fashion-mnist", path, CLOTHES, seed, size)


def load_cifar10(path: str | Path, seed: int, size: int | None) -> DataSet:
    """Load CIFAR-10 (Krizhevsky, 2009) from a folder.

    The folder has the original binary batches (``data_batch_1.bin`` ..., ``test_batch.bin``), or
    npz files of concatenated JPEG images (``*train*.npz``, ``*test*.npz``: blob, offsets, labels,
    class_names).
    """
    folder = Path(path)
    if folder.is_dir() and list(folder.glob("*.npz")):
        train, test = (
            find_files(folder, [f"*{part}*.npz"], "CIFAR-10")[0] for part in ("train", "test")
        )
        counts = [len(np.load(file)["labels"]) for file in (train, test)]
        kept = _chosen(sum(counts), size, seed)
        parts = [
            _jpegs(train, kept[kept < counts[0]]),
            _jpegs(test, kept[kept >= counts[0]] - counts[0]),
        ]
        notes: tuple[str, ...] = (
            "the images are JPEG compressed: pixel values differ slightly from the original arrays",
        )
        notes += (
            (f"{len(kept):,} of {sum(counts):,} samples, drawn with seed {seed}",)
            if len(kept) < sum(counts)
            else ()
        )
        return _images(
            "cifar-10",
            str(path),
            [part[0] for part in parts],
            [part[1] for part in parts],
            THINGS,
            notes,
        )
    train_files, test_files = (
        find_files(path, ["data_batch_*.bin"], "CIFAR-10"),
        find_files(path, ["test_batch.bin"], "CIFAR-10"),
    )
    pixels, codes = [], []
    for files in (train_files, test_files):
        records = np.concatenate([_records(file) for file in files])
        pixels.append(records[:, 1:].reshape(-1, 3, 32, 32))
        codes.append(records[:, 0])
    return draw_samples(_images("cifar-10", str(path), pixels, codes, THINGS), size, seed)


def generate_images(
    name: str, shape: tuple[int, int, int], classes: tuple[str, ...], seed: int, size: int | None
) -> DataSet:
    """Generate images with one smooth pattern per class.

    Each image shifts the pattern by up to two pixels, scales its brightness and adds noise; the
    last sixth is the test set.
    """
    draw, count = seeded_generator(seed), size or GENERATED
    channels, high, wide = shape
    coarse = (
        seeded_generator(seed, 1)
        .random((len(classes), channels, high // 4 + 1, wide // 4 + 1))
        .astype(np.float32)
    )
    patterns = np.kron(coarse, np.ones((1, 1, 4, 4), dtype=np.float32))[:, :, :high, :wide]
    codes = draw.integers(0, len(classes), count)
    shifts = draw.integers(-2, 3, (count, 2))
    rows = (np.arange(high)[None] + shifts[:, :1]) % high
    columns = (np.arange(wide)[None] + shifts[:, 1:]) % wide
    x = np.take_along_axis(
        np.take_along_axis(patterns[codes], rows[:, None, :, None], 2), columns[:, None, None, :], 3
    )
    x *= draw.uniform(0.6, 1.0, (count, 1, 1, 1)).astype(np.float32)
    x += draw.normal(0, 0.15, x.shape).astype(np.float32)
    return DataSet(
        name=name,
        source=generator_source(name, seed),
        x=np.clip(x, 0, 1),
        y=codes.astype(np.int64),
        features=_channels(channels),
        units=("",) * channels,
        task="classes",
        classes=classes,
        test=np.arange(count) >= count - count // 6,
    )


def _idx(
    name: str, path: str | Path, classes: tuple[str, ...], seed: int, size: int | None
) -> DataSet:
    pixels: list[U8] = []
    codes: list[U8] = []
    for part in ("train", "t10k"):
        for kind, into in (("images-idx3", pixels), ("labels-idx1", codes)):
            into.append(_idx_array(find_files(path, [f"{part}-{kind}-ubyte"], name)[0]))
    return draw_samples(
        _images(name, str(path), [part[:, None] for part in pixels], codes, classes), size, seed
    )


def _idx_array(path: Path) -> U8:
    """Read an IDX file of bytes: two zeros, 8 for bytes, the number of dimensions, their sizes in 4
    bytes each, the values.
    """
    body = read_decompressed(path)
    sizes = (
        [int.from_bytes(body[at : at + 4], "big") for at in range(4, 4 + 4 * body[3], 4)]
        if len(body) > 3
        else []
    )
    if body[:3] != b"\0\0\x08" or len(body) != 4 + 4 * len(sizes) + int(np.prod(sizes)):
        raise TableError(
            f"{path} is not a complete IDX file of bytes",
            help="download it again: it is incomplete, or a different file",
        )
    return np.frombuffer(body, dtype=np.uint8, offset=4 + 4 * len(sizes)).reshape(sizes)


def _records(path: Path) -> U8:
    """Read a binary CIFAR batch: records of one label byte and 3,072 pixel bytes."""
    body = read_decompressed(path)
    if not body or len(body) % 3073:
        raise TableError(
            f"{path} is not a complete CIFAR-10 batch",
            expected="records of 3,073 bytes",
            received=f"{len(body)} bytes",
            help="download it again: it is incomplete, or a different file",
        )
    return np.frombuffer(body, dtype=np.uint8).reshape(-1, 3073)


def _jpegs(path: Path, rows: NDArray[np.int64]) -> tuple[U8, U8]:
    """Decode images [N, 3, 32, 32] and labels [N] from an npz of concatenated JPEG images."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtra(f"decoding the images of {path}", "run") from error
    try:
        with np.load(path) as file:
            blob, ends, codes = file["blob"].tobytes(), file["offsets"].tolist(), file["labels"]
        pixels = np.empty((len(rows), 3, 32, 32), dtype=np.uint8)
        for place, row in enumerate(rows.tolist()):
            with Image.open(io.BytesIO(blob[ends[row] : ends[row + 1]])) as image:
                pixels[place] = np.asarray(image.convert("RGB")).transpose(2, 0, 1)
        return pixels, codes[rows].astype(np.uint8)
    except (
        *(OSError, EOFError, LookupError, ValueError, TypeError),
        *(zipfile.BadZipFile, zlib.error),
    ) as error:
        raise TableError(
            f"{path} is not a complete file of JPEG images",
            expected="an npz file with blob, offsets and labels, and images of 32 x 32 pixels",
            received=str(error),
            help="download the file again: it is incomplete, or a different file",
        ) from error


def _chosen(count: int, size: int | None, seed: int) -> NDArray[np.int64]:
    if size is None or size >= count:
        return np.arange(count)
    return np.sort(seeded_generator(seed).choice(count, size, replace=False))


def _images(
    name: str,
    source: str,
    pixels: Sequence[U8],
    codes: Sequence[U8],
    classes: tuple[str, ...],
    notes: tuple[str, ...] = (),
) -> DataSet:
    """Combine training and test images in bytes into one data set with values in 0 .. 1."""
    x = np.concatenate(pixels).astype(np.float32)
    x /= 255.0
    y = np.concatenate(codes).astype(np.int64)
    if len(y) and int(y.max()) >= len(classes):
        raise TableError(
            f"{source}: a label is not one of the {len(classes)} classes",
            received=str(int(y.max())),
            help="download it again: it is damaged, or a different file",
        )
    return DataSet(
        name=name,
        source=source,
        x=x,
        y=y,
        features=_channels(x.shape[1]),
        units=("",) * x.shape[1],
        task="classes",
        classes=classes,
        test=np.repeat([False, True], [len(part) for part in codes]),
        notes=notes,
    )


def _channels(count: int) -> tuple[str, ...]:
    return ("red", "green", "blue") if count == 3 else ("brightness",)
