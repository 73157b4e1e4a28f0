"""Contract of all data sets, generated and read, and special cases of each reader on small
files."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from data_set_files import FILES

from fedkg.data.sets import DATA_SETS, DataSet, data_set
from fedkg.data.sets.bosch import CHUNK, chunks
from fedkg.data.sets.testbeds import correlated_across, process_of
from fedkg.errors import FedkgError, JobError, TableError
from fedkg.units import Unit, parse_unit

SIZES = {"cmapss": 4, "traffic": 60, "fhwa": 60, "sumo": 60, "skab": 3, "hai": 3, "swat": 3}

every_set = pytest.mark.parametrize("name", sorted(DATA_SETS))


def read(name: str, tmp_path: Path, size: int | None = None, seed: int = 0) -> DataSet:
    return data_set(name, FILES[name](tmp_path), size=size, seed=seed)


def identical(a: DataSet, b: DataSet) -> bool:
    return np.array_equal(a.x, b.x, equal_nan=True) and np.array_equal(
        a.y, b.y, equal_nan=a.y.dtype != np.int64
    )


def check(data: DataSet) -> None:
    assert data.x.dtype in (np.float32, np.float64)
    assert data.x.shape[1] == len(data.features)
    assert not np.isinf(data.x).any()
    assert data.y.dtype == (np.int64 if data.task == "classes" else np.float64)
    assert all(unit == "" or isinstance(parse_unit(unit), Unit) for unit in data.units)
    if data.task == "classes":
        assert set(np.unique(data.y)) <= set(range(len(data.classes)))
    if data.task == "detection":
        assert set(np.unique(data.y)) <= {0.0, 1.0}
    if data.x.ndim == 4:
        assert 0 <= float(data.x.min()) <= float(data.x.max()) <= 1
    if data.time is not None:
        assert data.step_unit
        assert all(np.all(np.diff(data.of_client(client).time) > 0) for client in data.client_names)
    if data.test is not None:
        assert 0 < data.test.sum() < data.samples


def test_every_data_set_has_small_files_of_its_layout() -> None:
    assert set(FILES) == set(DATA_SETS)


@every_set
def test_generators_hang_on_seed_and_size_alone(name: str) -> None:
    size = SIZES.get(name, 300)
    data = data_set(name, seed=3, size=size)
    check(data)
    assert data.name == name
    assert data.source.endswith("generator (seed 3)")
    assert identical(data, data_set(name, seed=3, size=size))
    assert not identical(data, data_set(name, seed=4, size=size))


@every_set
def test_a_generator_without_a_size_makes_some(name: str) -> None:
    assert data_set(name).samples > 1_000


@every_set
def test_readers_give_what_generators_give(name: str, tmp_path: Path) -> None:
    data, made = read(name, tmp_path), data_set(name, size=SIZES.get(name, 300))
    check(data)
    assert str(tmp_path) in data.source
    for what in ("name", "task", "classes", "step_unit"):
        assert getattr(data, what) == getattr(made, what)
    assert data.x.dtype == made.x.dtype
    assert data.x.shape[2:] == made.x.shape[2:]
    for what in ("clients", "time", "test"):
        assert (getattr(data, what) is None) == (getattr(made, what) is None)
    if name not in ("secom", "hai", "swat", "bosch"):
        assert data.features == made.features
        assert data.units == made.units


@every_set
def test_less_can_be_read(name: str, tmp_path: Path) -> None:
    data, less = read(name, tmp_path), read(name, tmp_path, size=2)
    assert 0 < less.samples < data.samples


@every_set
def test_files_that_are_not_there_are_named(name: str, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(FedkgError, match=tmp_path.name):
            data_set(name, path)


def test_an_unknown_name_is_rejected_with_the_nearest() -> None:
    with pytest.raises(JobError, match="did you mean `mnist`"):
        data_set("mnits")
    with pytest.raises(JobError, match="at least 1"):
        data_set("mnist", size=0)


def test_idx_images_keep_their_pixels_and_labels(tmp_path: Path) -> None:
    data = read("mnist", tmp_path)
    assert data.y.tolist() == [0, 1, 2, 3, 4, 0, 1, 2]
    assert data.test is not None
    assert data.test.tolist() == [False] * 5 + [True] * 3
    np.testing.assert_allclose(
        data.x[1, 0, 0, :4] * 255, [784 % 256, 785 % 256, 786 % 256, 787 % 256], rtol=1e-6
    )


@pytest.mark.parametrize("body", [b"", b"\0\0\x09\x01\0\0\0\1x", b"\0\0\x08\x01\0\0\0\2x"])
def test_a_damaged_image_file_is_rejected(body: bytes, tmp_path: Path) -> None:
    folder = FILES["mnist"](tmp_path)
    (folder / "train-labels-idx1-ubyte").write_bytes(body)
    with pytest.raises(TableError, match="not a complete IDX file"):
        data_set("mnist", folder)


@pytest.mark.parametrize("damage", [lambda body: body[:-9], lambda body: body[:30] + b"\xff" * 20])
def test_a_damaged_gzip_file_is_rejected(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    folder = FILES["cmapss"](tmp_path)
    file = folder / "test_FD001.txt.gz"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(TableError, match="is not a complete gzip file"):
        data_set("cmapss", folder)


def test_binary_batches_are_three_planes_of_colour(tmp_path: Path) -> None:
    data = read("cifar-10", tmp_path)
    assert data.y.tolist() == [0, 1, 2, 0, 1, 0, 1, 2]
    np.testing.assert_allclose(data.x[0, 1, 0, 0] * 255, (1 + 1024) % 256, rtol=1e-6)


def test_unknown_cells_stay_unknown_and_status_becomes_failure(tmp_path: Path) -> None:
    data = read("secom", tmp_path)
    assert data.y.tolist() == [0, 0, 1, 0, 0, 0, 0, 0]
    assert np.isnan(data.x[:6]).sum() == 6
    assert data.x[3, 2] == 3.2


def test_the_wilderness_areas_are_the_clients_of_covertype(tmp_path: Path) -> None:
    data = read("covtype", tmp_path)
    assert data.client_names == ("Rawah", "Neota", "Comanche Peak", "Cache la Poudre")
    assert data.y.tolist() == [0, 1, 2, 3, 4, 5, 6, 0]


def test_cycles_left_are_counted_from_the_end_or_the_given_rest(tmp_path: Path) -> None:
    data = read("cmapss", tmp_path)
    assert data.client_names == ("FD001 train 1", "FD001 train 2", "FD001 test 1", "FD001 test 2")
    assert data.y.tolist() == [2, 1, 0, 1, 0, 8, 7, 20]


def test_hours_that_were_not_counted_are_unknown(tmp_path: Path) -> None:
    station = read("traffic", tmp_path).of_client("B2")
    np.testing.assert_array_equal(station.x[:, 0], [7, np.nan, np.nan, 1])
    assert np.diff(station.time).tolist() == [1, 1, 1]
    with pytest.raises(JobError, match="no client C3"):
        station.of_client("C3")


def test_lanes_of_a_station_are_summed_where_all_were_counted(tmp_path: Path) -> None:
    data = read("fhwa", tmp_path)
    assert data.client_names == ("01-000042", "56-000007")
    first = data.of_client("01-000042")
    assert first.x[:4, 0].tolist() == [110, 112, 114, 116]
    assert np.isnan(first.x[5, 0])
    assert np.isnan(first.x[24:]).all()  # the second lane was not counted on the second day
    other = data.of_client("56-000007")
    assert np.isnan(other.x[0, 0])
    assert other.x[1:4, 0].tolist() == [1, 2, 3]
    assert first.time[0] == other.time[0] == 429_528.0  # 2019-01-01 00:00, in hours since 1970


def test_runs_come_in_order_with_their_labels(tmp_path: Path) -> None:
    data = read("skab", tmp_path)
    assert data.client_names == ("anomaly-free/anomaly-free", "valve1/0", "other/10")
    assert data.y.tolist() == [0, 0, 0, 0, 1, 1, 0, 1]
    assert data.test is not None
    assert data.test.tolist() == [False] * 3 + [True] * 5


def test_an_attack_anywhere_is_an_attack(tmp_path: Path) -> None:
    data = read("hai", tmp_path)
    assert data.features == ("P1_FT01", "P2_SIT01")
    assert data.y.tolist() == [0, 0, 0, 1, 1]


def test_labels_in_a_file_beside_are_read_and_missing_ones_refused(tmp_path: Path) -> None:
    rows = "timestamp,P1_FT01\n2022-08-04 18:00:00,1.5\n2022-08-04 18:00:01,1.6\n"
    for name in ("hai-train1.csv", "hai-test1.csv"):
        (tmp_path / name).write_text(rows)
    with pytest.raises(TableError, match="has no labels"):
        data_set("hai", tmp_path)
    (tmp_path / "label-test1.csv").write_text(
        "timestamp,label\n2022-08-04 18:00:00,0\n2022-08-04 18:00:01,1\n"
    )
    assert data_set("hai", tmp_path).y.tolist() == [0, 0, 0, 1]
    (tmp_path / "label-test1.csv").write_text("timestamp,label\n2022-08-04 18:00:00,0\n")
    with pytest.raises(TableError, match="one label for each row of hai-test1"):
        data_set("hai", tmp_path)


def test_the_quirks_of_swats_files_are_read(tmp_path: Path) -> None:
    data = read("swat", tmp_path)
    assert data.features == ("FIT101", "LIT101", "MV201")
    assert data.y.tolist() == [0, 0, 0, 0, 1, 1]
    assert data.x[:, 0].tolist() == [1.5] * 3 + [2.5] * 3
    assert [process_of(tag) for tag in data.features] == ["1", "1", "2"]
    assert [process_of(tag) for tag in ("P1_FT01", "P4_LD", "x")] == ["P1", "P4", ""]
    assert process_of("x1003_24_SUM_OUT") == "P1"


def test_files_of_other_columns_are_rejected(tmp_path: Path) -> None:
    folder = FILES["hai"](tmp_path)
    (folder / "train2.csv").write_text(
        "timestamp,P1_FT01,P9_X,Attack\n2021-07-10 00:00:01,1.5,2,0\n"
    )
    with pytest.raises(
        TableError, match="does not have the columns of the first file of the folder"
    ):
        data_set("hai", folder)
    (folder / "train2.csv").write_text(
        "timestamp,P1_FT01,P2_SIT01,Attack\n2021-07-10 00:00:01,off,2,0\n"
    )
    with pytest.raises(TableError, match="`P1_FT01` does not contain numbers"):
        data_set("hai", folder)


def test_features_that_go_with_another_process_are_found() -> None:
    draw = np.random.Generator(np.random.PCG64(0))
    a, b = draw.normal(size=(2, 500))
    x = np.stack(
        [
            a,
            a + 0.1 * b,
            -a + 0.5 * draw.normal(size=500),
            draw.normal(size=500),
            np.full(500, 3.0),
        ],
        1,
    )
    x[7, 3] = np.nan
    assert correlated_across(x, ["P1", "P1", "P2", "P2", "P1"]).tolist() == [0, 1, 2]
    assert correlated_across(x, ["P1", "P1", "P1", "P2", "P2"]).tolist() == []


def test_parts_are_read_in_pieces_and_an_empty_cell_is_unknown(tmp_path: Path) -> None:
    path = FILES["bosch"](tmp_path)
    pieces = list(chunks(path, rows=3))
    assert [piece.samples for piece in pieces] == [3, 3, 2]
    assert sum(piece.samples for piece in chunks(path, rows=3, size=4)) == 4
    whole = data_set("bosch", path)
    assert whole.features == ("L0_S0_F0", "L0_S0_F2", "L3_S29_F3315")
    assert whole.y.tolist() == [0, 0, 0, 0, 0, 0, 1, 0]
    assert np.isnan(whole.x[:5, 1]).all()
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(TableError, match="not the table of measurements"):
        data_set("bosch", tmp_path / "other.csv")


def test_the_generator_has_boschs_shape_and_longer_tables_begin_like_shorter_ones() -> None:
    data = data_set("bosch", seed=1, size=CHUNK + 500)
    assert data.x.shape == (CHUNK + 500, 968)
    assert float(np.isnan(data.x).mean()) == pytest.approx(0.45, abs=0.005)
    assert float(data.y[:CHUNK].mean()) == pytest.approx(0.0058)
    assert np.array_equal(data_set("bosch", seed=1, size=300).x, data.x[:300], equal_nan=True)
    assert len(set(data.features)) == 968
    assert not np.isnan(data.x[:, 0]).any()  # wear is always measured
    worn = data.x[:, 0] > 0.5
    assert data.y[worn].mean() > 2 * data.y[~worn].mean()


def test_a_stream_holds_one_piece_at_a_time() -> None:
    stream = chunks(seed=0, size=None, rows=4_000)  # 1,183,747 rows in all
    first, second = next(stream), next(stream)
    assert first.samples == second.samples == 4_000
    assert not np.array_equal(first.x, second.x, equal_nan=True)


def test_traffic_has_days_and_weeks_and_a_blank_hour() -> None:
    data = data_set("traffic", size=7 * 24)
    assert len(data.client_names) == 95
    hours = data.x[:, 0].reshape(95, 7, 24)
    assert np.isnan(hours[:, :, 22]).all()
    mean = np.nanmean(hours[:, :, np.arange(24) != 22], axis=0)
    assert mean[:5, 8].min() > 3 * mean[:5, 3].max()
    assert mean[:5, 8].min() > mean[5:, 8].max()


def test_sensors_of_engines_drift_towards_the_end() -> None:
    data = data_set("cmapss", size=2).of_client("train 1")
    heat = data.x[:, data.features.index("T50")]
    assert heat[-10:].mean() > heat[:10].mean() + 10
    assert data.y[-1] == 0
    assert all(before - after == 1 for before, after in pairwise(data.y))


def test_a_record_whose_parts_do_not_fit_is_rejected() -> None:
    with pytest.raises(JobError, match="y does not have one entry for each sample"):
        DataSet(
            name="a",
            source="b",
            x=np.ones((3, 1)),
            y=np.ones(2),
            features=("f",),
            units=("",),
            task="detection",
        )
    with pytest.raises(JobError, match="each feature needs a unit"):
        DataSet(
            name="a",
            source="b",
            x=np.ones((3, 1)),
            y=np.ones(3),
            features=("f",),
            units=(),
            task="detection",
        )


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("brca.csv", "age_at_index", "age", "does not have the columns"),
        ("brca.csv", "P3,43", "P3,old", "row 4 of brca.csv"),
        ("brca.csv", "P3,43", "Q3,43", "lacks patient P3"),
        ("train_test_split.csv", "train_1", "train_9", "line 3 of train_test_split.csv"),
    ],
)
def test_damaged_files_of_patients_are_rejected(
    tmp_path: Path, file: str, old: str, new: str, said: str
) -> None:
    path = FILES["tcga-brca"](tmp_path) / file
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(TableError, match=said):
        data_set("tcga-brca", tmp_path)


def test_damaged_files_of_data_sets_are_named(tmp_path: Path) -> None:
    (tmp_path / "brca").mkdir()
    (FILES["tcga-brca"](tmp_path / "brca") / "brca.csv").write_bytes(b"pid\n\xff\n")
    with pytest.raises(TableError, match=r"brca\.csv: line 2 is not text in UTF-8"):
        data_set("tcga-brca", tmp_path / "brca")
    (tmp_path / "secom").mkdir()
    (tmp_path / "secom/secom.data").write_text("1 2\n3\n")
    (tmp_path / "secom/secom_labels.data").write_text("-1\n1\n")
    with pytest.raises(TableError, match="2 in row 1 and 1 in row 2"):
        data_set("secom", tmp_path / "secom")
    (tmp_path / "cmapss").mkdir()
    (tmp_path / "cmapss/test_FD001_old.txt").write_text("1 " * 26)
    with pytest.raises(TableError, match="without their remaining lives"):
        data_set("cmapss", tmp_path / "cmapss")
