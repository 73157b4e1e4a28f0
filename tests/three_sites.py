"""One plant's measurements, written as a plain table and as three sites export it."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path

RULES = """\
timeline time column "time" step 1 h
signal pressure in bar column "p [bar]" span 0 .. 20
signal temp in degC column "T [degC]" span -50 .. 300
signal valve in boolean column "valve"
signal machine column "machine"
rule limit require pressure <= 8 bar
rule hot require temp <= 80 degC
rule open require if pressure > 7 bar then valve is true
rule jump require temp - temp 1 h ago <= 20 K
rule mill require if machine is mill then pressure <= 7.9 bar
"""

SITES = """\
null: ["-"]
tableSchema:
  columns:
    - {name: pressure, unit: bar}
sites:
  graz:
    url: data/graz.csv
    dialect: {delimiter: ";", skipRows: 3, headerRowCount: 2}
    datatype: {decimalChar: ",", groupChar: "."}
    tableSchema:
      columns:
        - name: time
          titles: Zeit
          datatype: {base: datetime, format: "dd.MM.yyyy HH:mm"}
        - {name: pressure, titles: ["Kessel Druck [mbar]"], unit: mbar, null: "kaputt"}
        - {name: temp, titles: [Temperatur, "Kessel Temp [°C]"]}
        - {name: valve, titles: Ventil, datatype: {base: boolean, format: "AUF|ZU"}}
        - {name: machine, titles: Maschine, values: {Mühle: mill, Presse: press}}
  ohio:
    url: data/ohio.txt
    datatype: {groupChar: "'"}
    tableSchema:
      columns:
        - {name: time, titles: when, datatype: {base: datetime, format: "dd/MM/yy HH"}}
        - {name: pressure, titles: "PT101", unit: psi}
        - {name: temp, titles: TI7, unit: degF}
        - {name: valve, titles: XV, datatype: {base: boolean, format: "open|closed"}}
        - {name: machine, titles: unit}
  lyon:
    url: data/lyon.tsv
    timezone: Europe/Paris
    dialect: {encoding: windows-1252}
    tableSchema:
      columns:
        - name: time
          titles: "Date et heure"
          datatype: {base: datetime, format: "yyyy-MM-dd'T'HH:mm:ss"}
        - {name: pressure, titles: "Pression [kPa]", unit: kPa, null: ["-999", n.d.]}
        - {name: temp, titles: "Température [°C]"}
        - {name: valve, titles: Vanne, datatype: {base: boolean, format: "oui|non"}}
        - {name: machine, titles: Machine}
"""

PSI = Fraction("0.06894757293168361")
"""Bar in a psi."""


def grouped(value: float | Fraction, mark: str, decimal: str, digits: int) -> str:
    """A number with marks between thousands."""
    text = f"{float(value):,.{digits}f}"
    return text.replace(",", "_").replace(".", decimal).replace("_", mark)


def write_sites(folder: Path, rows: int = 60) -> None:
    """Write `rules.fkg`, `sites.yaml`, and for each site its own file and `plain/SITE.csv`."""
    (folder / "data").mkdir()
    (folder / "plain").mkdir()
    (folder / "rules.fkg").write_text(RULES, encoding="utf-8")
    (folder / "sites.yaml").write_text(SITES, encoding="utf-8")
    for seed, site in enumerate(("graz", "ohio", "lyon")):
        dice = random.Random(seed)
        times = [datetime(2016, 7, 4) + timedelta(hours=hour) for hour in range(rows)]
        bars = [Fraction(dice.randint(200, 900), 100) for _ in times]
        heats = [Fraction(dice.randint(200, 900), 10) for _ in times]
        open_ = [dice.random() < 0.5 for _ in times]
        machine = [dice.choice(["mill", "press"]) for _ in times]
        if site == "ohio":  # values with a finite number of digits in psi and degF
            bars = [Fraction(dice.randint(300, 1300), 10) * PSI for _ in times]
        unknown = {5, 17}
        plain = ["time,p [bar],T [degC],valve,machine"]
        own: list[str] = []
        for i, time in enumerate(times):
            bar = "" if i in unknown else repr(float(bars[i]))
            truth = "true" if open_[i] else "false"
            plain.append(f"{time:%Y-%m-%d %H:%M},{bar},{float(heats[i])},{truth},{machine[i]}")
            if site == "graz":
                pressure = "kaputt" if i in unknown else grouped(bars[i] * 1000, ".", ",", 1)
                word, name = ("AUF", "ZU")[not open_[i]], {"mill": "Mühle", "press": "Presse"}
                heat = grouped(heats[i], ".", ",", 1)
                own.append(f"{time:%d.%m.%Y %H:%M};{pressure};{heat};{word};{name[machine[i]]}")
            elif site == "ohio":
                pressure = "-" if i in unknown else grouped(bars[i] / PSI, "'", ".", 1)
                word = ("open", "closed")[not open_[i]]
                heat = grouped(heats[i] * 9 / 5 + 32, "'", ".", 2)
                own.append(f"{time:%d/%m/%y %H}|{pressure}|{heat}|{word}|{machine[i]}")
            else:
                pressure = ("-999", "n.d.")[i % 2] if i in unknown else str(float(bars[i] * 100))
                word = ("oui", "non")[not open_[i]]
                own.append(
                    f"{time:%Y-%m-%dT%H:%M:%S}\t{pressure}\t{float(heats[i])}\t{word}\t{machine[i]}"
                )
        (folder / "plain" / f"{site}.csv").write_text("\n".join([*plain, ""]), encoding="utf-8")
        heads = {
            "graz": [
                "Werk Graz",
                "Export vom 06.07.2016",
                "",
                "Zeit;Kessel;;Ventil;Maschine",
                ";Druck [mbar];Temp [°C];;",
            ],
            "ohio": ["when|PT101|TI7|XV|unit"],
            "lyon": ["Date et heure\tPression [kPa]\tTempérature [°C]\tVanne\tMachine"],
        }
        file = {"graz": "graz.csv", "ohio": "ohio.txt", "lyon": "lyon.tsv"}[site]
        encoding = "windows-1252" if site == "lyon" else "utf-8"
        body = "\n".join([*heads[site], *own, ""])
        (folder / "data" / file).write_text(body, encoding=encoding)
