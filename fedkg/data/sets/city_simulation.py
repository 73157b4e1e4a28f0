"""A city simulated by SUMO: a grid of streets and a day of random trips.

Source: Krajzewicz et al., "SUMO (Simulation of Urban MObility)", 2002. Letters: E segments (one
direction of a street between two junctions), I intervals.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from fedkg.data.sets.dataset import seeded_generator
from fedkg.data.sets.traffic import DAY
from fedkg.errors import JobError, MissingExtra

QUANTITIES = ("volume", "vehicles", "occupancy", "speed", "CO2", "fuel", "noise")
"""Measurements of each segment in each interval: vehicles that enter it per hour, and their mean
number; their share of its area, %; their mean speed, m/s (NaN without vehicles); CO2 and fuel of
all of them, mg/s; noise, dB (0 without vehicles).
"""

_MEANS = {"plain": "", "emissions": ' type="emissions"', "noise": ' type="harmonoise"'}
_KINDS = {"passenger": 0.85, "truck": 0.1, "motorcycle": 0.05}


class City(BaseModel):
    """Settings of the simulated city. Lengths in m, the interval in s.

    Streets are two-way, with 1 to `lanes` lanes. Junctions are displaced at random by a tenth of
    the length; all have traffic lights.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    columns: int = Field(default=4, ge=2, le=50, description="Junctions from west to east.")
    rows: int = Field(default=4, ge=2, le=50, description="Junctions from south to north.")
    length: float = Field(default=200.0, ge=50, le=5000, description="Distance of two junctions.")
    lanes: int = Field(
        default=2, ge=1, le=6, description="Largest number of lanes of a street in one direction."
    )
    hours: float = Field(
        default=24.0, gt=0, le=24 * 366, description="Simulated time, from midnight on."
    )
    interval: int = Field(
        default=300,
        ge=1,
        description="Length of an interval in seconds; measurements are means over it.",
    )
    trips: float = Field(
        default=600.0, gt=0, description="Number of trips that start in the busiest hour."
    )

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if round(self.hours * 3600) % self.interval:
            raise ValueError(
                "`hours` must be a whole number of intervals; `interval` is in seconds"
            )
        return self


def simulate_city(city: City, seed: int) -> tuple[tuple[str, ...], NDArray[np.float64], str]:
    """Simulate a city; return the E segments, measurements [E, I, quantities], and the simulator
    version.

    Streets, trips and drivers depend on `seed` alone; another version of the simulator may produce
    different traffic.

    Raises:
        MissingExtra: the simulator is not installed.
        JobError: the simulator fails.
    """
    programs = _programs()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        _streets(programs, city, seed, folder)
        segments = _segments(folder / "streets.net.xml")
        (folder / "trips.xml").write_text(_trips(city, segments, seed), encoding="utf-8")
        period = f'period="{city.interval}" excludeEmpty="false"'
        means = "".join(
            f'<edgeData id="{name}" file="{name}.xml" {period}{kind}/>'
            for name, kind in _MEANS.items()
        )
        (folder / "means.xml").write_text(f"<additional>{means}</additional>", encoding="utf-8")
        given = [
            "-n",
            "streets.net.xml",
            "-r",
            "trips.xml",
            "-a",
            "means.xml",
            "--end",
            str(round(city.hours * 3600)),
        ]
        _run(
            programs,
            "sumo",
            [
                *given,
                "--no-step-log",
                "--no-warnings",
                "--xml-validation",
                "never",
                "--seed",
                str(seed % 2**31),
            ],
            folder,
        )
        measured = {name: _read(folder / f"{name}.xml", segments, city) for name in _MEANS}
        return (
            segments,
            _quantities(measured, city),
            _run(programs, "sumo", ["--version"], folder).partition("\n")[0],
        )


def _programs() -> Path:
    """The simulator's home. Raises MissingExtra if it is not installed."""
    found = importlib.util.find_spec("sumo")
    for place in () if found is None else found.submodule_search_locations or ():
        if (Path(place) / "bin").is_dir():
            return Path(place)
    raise MissingExtra("simulating a city", "sumo")


def _run(home: Path, program: str, options: list[str], folder: Path) -> str:
    """Run a program of the simulator and return its output. Raises JobError if it fails."""
    command = [str(home / "bin" / program), *options]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "SUMO_HOME": str(home)},
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        raise JobError(
            f"cannot run the program {program} of the traffic simulator",
            received=error.strerror or str(error),
            help="install the simulator again: pip install --force-reinstall eclipse-sumo",
        ) from error
    if done.returncode:
        raise JobError(
            f"the simulation of a city failed in {program}",
            received=" ".join((done.stderr or done.stdout).split())[-300:],
            help="check the numbers in city.toml; the received text is the output of the program",
        )
    return done.stdout


def _streets(home: Path, city: City, seed: int, folder: Path) -> None:
    moved = f"normc(0,{city.length / 10:g},{-city.length / 4:g},{city.length / 4:g})"
    shape = {
        "grid.x-number": city.columns,
        "grid.y-number": city.rows,
        "grid.length": city.length,
        "default.lanenumber": city.lanes,
    }
    drawn = {"perturb-x": moved, "perturb-y": moved, "seed": seed % 2**31}
    fixed = {
        "default-junction-type": "traffic_light",
        "no-turnarounds": "true",
        "output-file": "streets.net.xml",
    }
    options = [
        word
        for name, value in (shape | drawn | fixed).items()
        for word in (f"--{name}", str(value))
    ]
    _run(home, "netgenerate", ["--grid", "--random-lanenumber", *options], folder)


def _segments(network: Path) -> tuple[str, ...]:
    every = ElementTree.parse(network).getroot().iter("edge")
    return tuple(sorted(edge.attrib["id"] for edge in every if edge.get("function") != "internal"))


def _trips(city: City, segments: tuple[str, ...], seed: int) -> str:
    """Random trips with the hourly profile of a working day: to work before noon, mostly, and back
    after it.
    """
    draw = seeded_generator(seed)
    homes, works = draw.dirichlet(np.full(len(segments), 0.5), 2)
    lines = [f'<vType id="{kind}" vClass="{kind}"/>' for kind in _KINDS]
    for hour in range(int(np.ceil(city.hours))):
        count = int(draw.poisson(city.trips * DAY[hour % 24] / DAY.max()))
        outward = draw.random(count) < (0.8 if hour % 24 < 12 else 0.2)
        there, back = (
            draw.choice(len(segments), (2, count), p=homes),
            draw.choice(len(segments), (2, count), p=works),
        )
        kinds = draw.choice(list(_KINDS), count, p=list(_KINDS.values()))
        departs = np.sort(draw.random(count)) * 3600 + hour * 3600
        for place, depart in enumerate(departs):
            ends = (
                (there[0, place], back[0, place])
                if outward[place]
                else (back[1, place], there[1, place])
            )
            if ends[0] != ends[1]:
                start, end = (segments[one] for one in ends)
                name, kind = f"{hour}.{place}", kinds[place]
                lines.append(
                    f'<trip id="{name}" type="{kind}" depart="{depart:.2f}" '
                    f'departLane="best" from="{start}" to="{end}"/>'
                )
    return "<routes>\n" + "\n".join(lines) + "\n</routes>\n"


def _read(path: Path, segments: tuple[str, ...], city: City) -> dict[str, NDArray[np.float64]]:
    """Measurements by attribute, [E, I]; NaN if missing."""
    place = {name: position for position, name in enumerate(segments)}
    count = round(city.hours * 3600) // city.interval
    found: dict[str, NDArray[np.float64]] = {}
    interval = -1
    for event, element in ElementTree.iterparse(path, events=("start", "end")):
        if event == "start":
            interval += element.tag == "interval"
        elif element.tag == "edge" and interval < count:
            for name, text in element.attrib.items():
                if name != "id":
                    found.setdefault(name, np.full((len(segments), count), np.nan))[
                        place[element.attrib["id"]], interval
                    ] = float(text)
        elif element.tag == "interval":
            element.clear()
    return found


def _quantities(
    measured: dict[str, dict[str, NDArray[np.float64]]], city: City
) -> NDArray[np.float64]:
    plain, emissions = measured["plain"], measured["emissions"]
    nobody = plain["sampledSeconds"] == 0
    columns = {
        "volume": (plain["entered"] + plain["departed"]) * (3600 / city.interval),
        "vehicles": plain["sampledSeconds"] / city.interval,
        "occupancy": np.where(nobody, 0.0, plain["occupancy"]),
        "speed": np.where(nobody, np.nan, plain["speed"]),
        "CO2": np.nan_to_num(emissions["CO2_abs"]) / city.interval,
        "fuel": np.nan_to_num(emissions["fuel_abs"]) / city.interval,
        "noise": np.nan_to_num(measured["noise"]["noise"]),
    }
    return np.stack([columns[name] for name in QUANTITIES], axis=2)
