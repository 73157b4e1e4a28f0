"""Small files in the layout of every data set, for the tests of its reader."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from fedkg.data.sets import survival


def _idx(array: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    return head + array.astype(np.uint8).tobytes()


def mnist(folder: Path) -> Path:
    for part, count in (("train", 5), ("t10k", 3)):
        pixels = np.arange(count * 784).reshape(count, 28, 28) % 256
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(_idx(pixels)))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(_idx(np.arange(count)))
    return folder


def cifar(folder: Path) -> Path:
    for name, count in (("data_batch_1.bin", 3), ("data_batch_2.bin", 2), ("test_batch.bin", 3)):
        records = np.arange(count * 3073).reshape(count, 3073) % 256
        records[:, 0] = np.arange(count)
        (folder / name).write_bytes(records.astype(np.uint8).tobytes())
    return folder


def ai4i(folder: Path) -> Path:
    header = (
        "UDI,Product ID,Type,Air temperature [K],Process temperature [K],"
        "Rotational speed [rpm],Torque [Nm],Tool wear [min],Machine failure"
    )
    rows = [
        f"{i},{'LMH'[i % 3]}{i},{'LMH'[i % 3]},300.{i},310.{i},15{i}0,4{i}.5,{i * 10},{int(i == 4)}"
        for i in range(8)
    ]
    path = folder / "ai4i2020.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def secom(folder: Path) -> Path:
    (folder / "secom.data").write_text(
        "\n".join(" ".join("NaN" if i == j else f"{i}.{j}" for j in range(6)) for i in range(8))
        + "\n"
    )
    (folder / "secom_labels.data").write_text(
        "".join(f'{1 if i == 2 else -1} "19/07/2008 11:5{i}:00"\n' for i in range(8))
    )
    return folder


def covtype(folder: Path) -> Path:
    rows = []
    for i in range(8):
        cells = (
            [3000 + i, 10, 5, 100, 20, 500, 220, 230, 140, 900]
            + [int(j == i % 4) for j in range(4)]
            + [int(j == i) for j in range(40)]
        )
        rows.append(",".join(map(str, [*cells, i % 7 + 1])))
    (folder / "covtype.data.gz").write_bytes(gzip.compress("\n".join(rows).encode()))
    return folder


def cmapss(folder: Path) -> Path:
    def lines(lives: list[int]) -> str:
        return "".join(
            " ".join([str(unit), str(cycle), *(f"{cycle}.{i}" for i in range(24))]) + "  \n"
            for unit, life in enumerate(lives, 1)
            for cycle in range(1, life + 1)
        )

    (folder / "train_FD001.txt").write_text(lines([3, 2]))
    (folder / "test_FD001.txt.gz").write_bytes(gzip.compress(lines([2, 1]).encode()))
    (folder / "RUL_FD001.txt").write_text("7 \n20 \n")
    (folder / "test_FD002.txt").write_text(lines([4]))  # without its rest: cannot be used
    return folder


def traffic(folder: Path) -> Path:
    cells = [(21, "5", "7"), (22, "", ""), (23, "6", "")]
    lines = [f"2020-08-07T{hour}:00:00Z,{a},{b}" for hour, a, b in cells]
    lines += [f"2020-08-08T0{hour}:00:00Z,{hour},{hour + 1}" for hour in range(1)]
    (folder / "volume_hourly_2stations.csv").write_text(
        "time_utc,A1,B2\n" + "\n".join(lines) + "\n"
    )
    return folder


def fhwa(folder: Path) -> Path:
    """Station 000042 of state 01 in fixed columns, two lanes, then one; another with bars."""

    def fixed(lane: int, day: int, first: int, blank: int | None = None) -> str:
        hours = "".join("     " if hour == blank else f"{first + hour:05d}" for hour in range(24))
        return f"3011R0000421{lane}1901{day:02d}3{hours}0"

    (folder / "AL_JAN_2019.VOL").write_text(
        "\n".join([fixed(1, 1, 100), fixed(2, 1, 10, blank=5), fixed(1, 2, 7)]) + "\n"
    )
    names = [
        "Record_Type",
        "State_Code",
        "F_System",
        "Station_Id",
        "Travel_Dir",
        "Travel_Lane",
        "Year_Record",
        "Month_Record",
        "Day_Record",
    ]
    header = "|".join(
        [*names, "Day_of_Week", *(f"Hour_{hour:02d}" for hour in range(24)), "Restrictions"]
    )
    row = "|".join(
        [
            "3",
            "56",
            "1R",
            "000007",
            "1",
            "1",
            "2019",
            "1",
            "1",
            "3",
            *(str(hour) if hour else "-1" for hour in range(24)),
            "0",
        ]
    )
    (folder / "WY_JAN_2019.txt").write_text(f"{header}\n{row}\n")
    return folder


def sumo(folder: Path) -> Path:
    """Two segments in three intervals of a minute; the second has no cars in the last interval."""
    header = "# a simulator\ntime_s,segment,volume,vehicles,occupancy,speed,CO2,fuel,noise"
    speeds = {"A0B0": "999", "B0A0": ("9", "9", "")}
    rows = [
        f"{60 * i},{name},{60 + i},0.{i},1.{i},{speed[i]},300,100,6{i}"
        for i in range(3)
        for name, speed in speeds.items()
    ]
    path = folder / "segments.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def skab(folder: Path) -> Path:
    header = (
        "datetime;Accelerometer1RMS;Accelerometer2RMS;Current;Pressure;"
        "Temperature;Thermocouple;Voltage;Volume Flow RateRMS"
    )
    for name, marked, seconds in (
        ("anomaly-free/anomaly-free", False, (0, 1, 2)),
        ("valve1/0", True, (0, 1, 3)),
        ("other/10", True, (0, 1)),
    ):
        path = folder / f"{name}.csv"
        path.parent.mkdir(exist_ok=True)
        rows = [
            f"2020-03-09 10:14:0{s};0.1;0.2;1.5;0.4;79.5;26;23{s}.0;32"
            + (f";{float(s > 0)};0.0" if marked else "")
            for s in seconds
        ]
        path.write_text(
            "\n".join([header + (";anomaly;changepoint" if marked else ""), *rows]) + "\n"
        )
    return folder


def hai(folder: Path) -> Path:
    (folder / "train1.csv").write_text(
        "timestamp,P1_FT01,P2_SIT01,Attack\n2021-07-10 00:00:01,1.5,2,0\n2021-07-10 "
        "00:00:02,1.6,3,0\n"
    )
    rows = [
        "timestamp,P1_FT01,P2_SIT01,attack,attack_P1",
        *(f"2021-07-11 00:00:0{i},1.5,{i},{int(i == 3)},{int(i == 2)}" for i in (1, 2, 3)),
    ]
    test = "\n".join(rows) + "\n"
    (folder / "test1.csv.gz").write_bytes(gzip.compress(test.encode()))
    return folder


def swat(folder: Path) -> Path:
    header = " Timestamp,FIT101, LIT101,MV201,Normal/Attack\n"
    times = [f" 22/12/2015 4:30:0{second} PM" for second in range(3)]
    (folder / "SWaT_Dataset_Normal_v1.csv").write_text(
        ",P1,,P2,\n" + header + "".join(f"{t},1.5,500,2,Normal\n" for t in times)
    )
    marks = ("Normal", "A ttack", "Attack")
    lines = "".join(f"{t};2,5;510;1;{mark}\n" for t, mark in zip(times, marks, strict=True))
    (folder / "SWaT_Dataset_Attack_v0.csv").write_text(header.replace(",", ";") + lines)
    return folder


def bosch(folder: Path) -> Path:
    rows = [
        f"{4 + 2 * i},0.0{i},{'' if i < 5 else f'-0.{i}'},{'' if i % 2 else 0.5},{int(i == 6)}"
        for i in range(8)
    ]
    path = folder / "train_numeric.csv"
    path.write_text("\n".join(["Id,L0_S0_F0,L0_S0_F2,L3_S29_F3315,Response", *rows]) + "\n")
    return path


def tcga_brca(folder: Path) -> Path:
    header = ["pid", *survival.FEATURES, "E", "T"]
    rows = [
        [f"P{i}", str(40 + i), *(str(i % 2) for _ in survival.FEATURES[1:]), f"{i % 3 == 0:d}.0",
         f"{100.0 * (i + 1)}"]
        for i in range(14)
    ]  # fmt: skip
    with (folder / "brca.csv").open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    folds = [("test" if i % 4 == 0 else "train", i % 6) for i in range(13)]
    (folder / "train_test_split.csv").write_text(
        "pid,fold,fold2\n" + "".join(f"P{i},{f},{f}_{c}\n" for i, (f, c) in enumerate(folds))
    )
    return folder


FILES: Mapping[str, Callable[[Path], Path]] = {
    "ai4i": ai4i,
    "secom": secom,
    "covtype": covtype,
    "mnist": mnist,
    "fashion-mnist": mnist,
    "cifar-10": cifar,
    "cmapss": cmapss,
    "traffic": traffic,
    "fhwa": fhwa,
    "sumo": sumo,
    "skab": skab,
    "hai": hai,
    "swat": swat,
    "bosch": bosch,
    "tcga-brca": tcga_brca,
}
