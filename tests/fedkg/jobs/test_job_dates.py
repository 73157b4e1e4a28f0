"""fedkg resolves dates of a job's table before it splits the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from fedkg.errors import TableError
from fedkg.jobs.schema.job import Data, Job
from fedkg.jobs.source_tables import read_tables
from fedkg.pack import Column, DataContract

CONTRACT = DataContract(columns=(Column(name="x", source="x"),), time="when")


def times(
    folder: Path, dates: tuple[str, ...], order: Literal["day-first", "month-first"] | None = None
) -> list[str]:
    path = folder / "t.csv"
    path.write_text("when,x,y,machine\n" + "".join(f"{date},1,0,M1\n" for date in dates))
    job = Job.model_construct(data=Data(path=str(path), label="y", dates=order), sites={})
    frame = read_tables(job, CONTRACT).whole
    assert frame is not None
    return frame.texts("when")


def test_one_date_of_the_whole_table_decides(tmp_path: Path) -> None:
    assert times(tmp_path, ("03/04/2024", "25/04/2024 10:00")) == [
        "2024-04-03 00:00:00",
        "2024-04-25 10:00:00",
    ]
    assert times(tmp_path, ("03/04/2024", "soon", "04/25/2024")) == [
        "2024-03-04 00:00:00",
        "soon",
        "2024-04-25 00:00:00",
    ]
    assert times(tmp_path, ("2024-04-03", "2024-04-04")) == ["2024-04-03", "2024-04-04"]


def test_where_none_does_the_job_says_it(tmp_path: Path) -> None:
    dates = ("03/04/2024", "04/04/2024")
    with pytest.raises(TableError, match="can be read in two ways") as error:
        times(tmp_path, dates)
    assert "data.dates in a job" in error.value.help
    assert times(tmp_path, dates, "month-first") == ["2024-03-04 00:00:00", "2024-04-04 00:00:00"]
