"""The sections of a sites file.

Source: W3C, Metadata Vocabulary for Tabular Data (2015): `url`, `dialect`, `tableSchema`,
`columns`, `name`, `titles`, `datatype`, `null`, `virtual`, `default`, `separator`,
`suppressOutput`, `primaryKey`, `foreignKeys`. `sites`, `metadata`, `sheet`, `timezone`, `unit`,
`values` and `settings` are additions of fedkg.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from fedkg.tables import Dialect

NUMBERS = frozenset(
    [
        "number",
        "decimal",
        "double",
        "float",
        "integer",
        "int",
        "long",
        "short",
        "byte",
        "nonNegativeInteger",
        "positiveInteger",
        "nonPositiveInteger",
        "negativeInteger",
        "unsignedLong",
        "unsignedInt",
        "unsignedShort",
        "unsignedByte",
    ]
)
TIMES = frozenset({"datetime", "dateTime", "dateTimeStamp", "date"})
TEXTS = frozenset(
    [
        "string",
        "normalizedString",
        "token",
        "language",
        "Name",
        "NMTOKEN",
        "anyURI",
        "any",
        "anyAtomicType",
        "json",
        "xml",
        "html",
        "time",
        "binary",
        "base64Binary",
        "hexBinary",
        "QName",
        "gDay",
        "gMonth",
        "gMonthDay",
        "gYear",
        "gYearMonth",
        "duration",
        "dayTimeDuration",
        "yearMonthDuration",
    ]
)
BASES = NUMBERS | TIMES | TEXTS | {"boolean"}
"""Values of `datatype.base`. Source: Metadata Vocabulary for Tabular Data, section 5.11.1."""

UNUSED = frozenset(
    [
        "id",
        "type",
        "lang",
        "textDirection",
        "tableDirection",
        "ordered",
        "aboutUrl",
        "propertyUrl",
        "valueUrl",
        "rowTitles",
        "transformations",
        "notes",
        "required",
        "length",
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "minInclusive",
        "maxInclusive",
        "minExclusive",
        "maxExclusive",
        "commentPrefix",
        "lineTerminators",
        "skipColumns",
        "skipInitialSpace",
        "skipBlankRows",
        "trim",
        "doubleQuote",
        "description",
    ]
) - {"commentPrefix"}
"""Properties of the vocabulary that do not change what fedkg reads."""

Character = Annotated[str, Field(min_length=1, max_length=1)]
Texts = tuple[str, ...]


class _Part(BaseModel):
    """A part of a sites file: frozen, without unknown fields.

    Annotations with a prefix (`dc:title`, `@id`) and unused properties of the vocabulary are left
    out. In a CSVW file (context `csvw`) all unknown properties are, as the vocabulary requires.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, arbitrary_types_allowed=True
    )

    @model_validator(mode="before")
    @classmethod
    def _without_annotations(cls, value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, dict):
            return value
        known = {name for key, field in cls.model_fields.items() for name in (key, field.alias)}
        lenient = bool(info.context and info.context.get("csvw"))
        return {
            key: item
            for key, item in value.items()
            if key in known
            or not (lenient or key in UNUSED or (isinstance(key, str) and _is_annotation(key)))
        }


def _is_annotation(key: str) -> bool:
    return key.startswith("@") or ":" in key


def _as_list(value: Any) -> Any:
    """One text as a list of texts; numbers, as YAML reads them, as texts."""
    items = value if isinstance(value, list | tuple) else [] if value is None else [value]
    if isinstance(value, dict):
        return value
    return tuple(
        ""
        if item is None
        else str(item)
        if isinstance(item, int | float) and not isinstance(item, bool)
        else item
        for item in items
    )


class Format(_Part):
    """The form of numbers."""

    decimal_char: Character | None = Field(
        default=None, alias="decimalChar", description="Decimal mark of numbers."
    )
    group_char: Character | None = Field(
        default=None, alias="groupChar", description="Mark between thousands."
    )
    pattern: str | None = Field(
        default=None, description="Number pattern such as `#,##0.00`, with these marks."
    )


class Datatype(_Part):
    """The type of a column's cells and how they are written."""

    base: str | None = Field(
        default=None,
        description="`number` (also `decimal`, `integer`, ...), `boolean`, `datetime`, `date`, "
        "`string`; empty: what the rules expect.",
    )
    format: str | Format | None = Field(
        default=None,
        description="Of times a Unicode date pattern such as `dd.MM.yyyy HH:mm`; of Booleans the "
        "two words, `open|closed`; of numbers a pattern such as `#,##0.00`, or a section with "
        "`decimalChar`, `groupChar` and `pattern`.",
    )
    decimal_char: Character | None = Field(
        default=None,
        alias="decimalChar",
        description="Decimal mark of numbers. Empty: `.` if `groupChar` or a pattern is stated, "
        "else detected.",
    )
    group_char: Character | None = Field(
        default=None,
        alias="groupChar",
        description="Mark between thousands. Empty: with a pattern `,` (none if `decimalChar` is "
        "`,`), with `decimalChar` alone none, else detected.",
    )

    @model_validator(mode="before")
    @classmethod
    def _in_a_word(cls, value: Any) -> Any:
        """`number` is short for `{base: number}`."""
        return {"base": value} if isinstance(value, str) else value

    @field_validator("base")
    @classmethod
    def _is_a_base(cls, base: str | None) -> str | None:
        if base is not None and base not in BASES:
            raise ValueError(
                f"unknown type `{base}`; known: number, integer, boolean, datetime, date, time, "
                "string"
            )
        return base

    @model_validator(mode="after")
    def _fits(self) -> Datatype:
        if self.base == "boolean" and self.format is not None:
            words = self.format.split("|") if isinstance(self.format, str) else []
            if len(words) != 2 or not all(words) or words[0] == words[1]:
                raise ValueError("the format of a Boolean has two words, such as `open|closed`")
        decimal, group = self.marks
        for mark in (decimal, group):
            if mark is not None and (mark.isalnum() or mark in "+-−#%‰"):
                raise ValueError(f"`{mark}` cannot be a mark in numbers; use `.`, `,` or a blank")
        if decimal is not None and decimal == group:
            raise ValueError(
                "`decimalChar` and `groupChar` are the same character; change one of them"
            )
        return self

    @property
    def marks(self) -> tuple[str | None, str | None]:
        """`decimalChar` and `groupChar`, stated here or in `format`."""
        inner = self.format_section
        return self.decimal_char or inner.decimal_char, self.group_char or inner.group_char

    @property
    def format_section(self) -> Format:
        """`format`, if it is a section."""
        return self.format if isinstance(self.format, Format) else Format()

    @property
    def pattern(self) -> str:
        """The number pattern; "" for none, or if the type is not a number."""
        if isinstance(self.format, str):
            return self.format if self.kind in ("", "number") else ""
        return self.format_section.pattern or ""

    @property
    def kind(self) -> Literal["number", "boolean", "time", "text", ""]:
        """The group of types that `base` belongs to; "" without one."""
        if self.base is None:
            return ""
        if self.base in NUMBERS:
            return "number"
        if self.base in TIMES:
            return "time"
        return "boolean" if self.base == "boolean" else "text"


class Column(_Part):
    """One column of a site's table."""

    name: str = Field(
        default="",
        description="Signal or label of the rules, or the header that the rules or the job "
        "expect; empty: the first of `titles`.",
    )
    titles: Texts = Field(
        default=(),
        description="Header in the site's file, or a list of alternatives; empty: `name`.",
    )
    unit: str | None = Field(
        default=None,
        alias="unit",
        description="Unit of the values; fedkg converts them to the unit of the rules. Empty: the "
        "unit in brackets at the end of the header, or else the unit of the rules.",
    )
    datatype: Datatype | None = Field(default=None, description="Type and format of the cells.")
    null: Texts = Field(
        default=(), description="Words for a missing value, in addition to those of the site."
    )
    values: dict[str, str] = Field(
        default_factory=dict, description="Text in the file: text in the rules."
    )
    timezone: str | None = Field(
        default=None, description="Zone of the times, instead of that of the site."
    )
    virtual: bool = Field(
        default=False, description="The file has no such column; all rows have the `default`."
    )
    default: str = Field(default="", description="Value of empty cells.")
    separator: str | None = Field(
        default=None,
        description="Mark between several values in a cell; rules and models cannot read this "
        "column.",
    )
    suppress_output: bool = Field(
        default=False,
        alias="suppressOutput",
        description="Leave out this column; it may be missing in the file.",
    )

    line: int | None = Field(default=None, alias="@line", description="Set by fedkg.")

    @field_validator("titles", mode="before")
    @classmethod
    def _in_any_language(cls, value: Any) -> Any:
        """Titles by language, or one title, as a list."""
        if isinstance(value, dict):
            return tuple(
                title
                for titles in value.values()
                for title in (titles if isinstance(titles, list) else [titles])
            )
        return _as_list(value)

    @field_validator("null", mode="before")
    @classmethod
    def _null_list(cls, value: Any) -> Any:
        return _as_list(value)

    @field_validator("values", mode="before")
    @classmethod
    def _value_texts(cls, value: Any) -> Any:
        """YAML reads `on`, `yes` and numbers as other types; here they are texts."""
        if not isinstance(value, dict):
            return value
        wrong = next((one for pair in value.items() for one in pair if isinstance(one, bool)), None)
        if wrong is not None:
            raise ValueError(
                "must be texts: put words such as on, off, yes, no, true and false in quotes"
            )
        return {str(key): str(item) for key, item in value.items()}

    @model_validator(mode="before")
    @classmethod
    def _annotated_unit(cls, value: Any) -> Any:
        """`schema:unitText` of existing metadata states the unit."""
        if isinstance(value, dict) and "unit" not in value and "schema:unitText" in value:
            return {**value, "unit": value["schema:unitText"]}
        return value

    @model_validator(mode="after")
    def _named(self) -> Column:
        if not self.name and not self.titles:
            raise ValueError("a column needs a `name` or `titles`")
        return self

    @property
    def key(self) -> str:
        """The name of the column, or its first title."""
        return self.name or self.titles[0]


class Reference(_Part):
    """The table and columns that a foreign key refers to."""

    resource: str = Field(description="Path of the table, relative to the sites file.")
    column_reference: Texts = Field(
        alias="columnReference", description="Names of columns in that table."
    )

    @field_validator("column_reference", mode="before")
    @classmethod
    def _column_list(cls, value: Any) -> Any:
        return _as_list(value)

    @model_validator(mode="before")
    @classmethod
    def _names_a_table(cls, value: Any) -> Any:
        if isinstance(value, dict) and "schemaReference" in value and "resource" not in value:
            raise ValueError("fedkg does not read `schemaReference`; name the table in `resource`")
        return value


class ForeignKey(_Part):
    """Columns whose values are in another table."""

    column_reference: Texts = Field(
        alias="columnReference", description="Names of columns in this table."
    )
    reference: Reference = Field(description="The columns of the other table, in the same order.")

    @field_validator("column_reference", mode="before")
    @classmethod
    def _column_list(cls, value: Any) -> Any:
        return _as_list(value)

    @model_validator(mode="after")
    def _in_pairs(self) -> ForeignKey:
        own, other = len(self.column_reference), len(self.reference.column_reference)
        if not own:
            raise ValueError("a foreign key needs at least one column in `columnReference`")
        if own != other:
            raise ValueError(
                f"`columnReference` has {own} column{'s' * (own > 1)}, and that of `reference` has "
                f"{other}; write the same number in both lists"
            )
        return self


class TableSchema(_Part):
    """The columns of a table."""

    columns: tuple[Column, ...] = Field(default=(), description="The described columns.")
    primary_key: Texts = Field(
        default=(),
        alias="primaryKey",
        description="Names of the columns that tell several series in one table apart, such as a "
        "machine; the column of times may be among them. fedkg checks the order of times in each "
        "series. What rules take as a trace is stated by their `timeline`.",
    )
    foreign_keys: tuple[ForeignKey, ...] = Field(
        default=(), alias="foreignKeys", description="Columns with values of another table."
    )

    @field_validator("primary_key", mode="before")
    @classmethod
    def _key_list(cls, value: Any) -> Any:
        return _as_list(value)

    @model_validator(mode="after")
    def _unique(self) -> TableSchema:
        names = [column.key for column in self.columns]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"column `{twice}` is described twice; keep one of them")
        return self


class DialectSection(_Part):
    """The form of a text file or sheet; what is not stated is detected."""

    delimiter: Character | None = Field(default=None, description="Character between cells.")
    encoding: str | None = Field(default=None, description="Such as `utf-8`, `windows-1252`.")
    quote_char: Character | None = Field(
        default='"', alias="quoteChar", description="Character around cells; null: none."
    )
    comment_prefix: str | None = Field(
        default=None, alias="commentPrefix", description="Start of rows to leave out."
    )
    header: bool | None = Field(
        default=None, description="`false`: no header; columns are described in their order."
    )
    header_row_count: int | None = Field(
        default=None,
        alias="headerRowCount",
        ge=0,
        le=20,
        description="Number of header rows; several rows are joined, as for merged cells.",
    )
    skip_rows: int | None = Field(
        default=None,
        alias="skipRows",
        ge=0,
        le=1_000_000,
        description="Lines above the header, blank ones included.",
    )

    def dialect(self) -> Dialect:
        """The dialect for the table reader."""
        rows = self.header_row_count
        if rows is None and self.header is False:
            rows = 0
        if rows is None and self.skip_rows is not None:
            rows = 1
        return Dialect(
            delimiter=self.delimiter,
            encoding=self.encoding,
            quote=self.quote_char or "",
            comment=self.comment_prefix or "",
            header_rows=rows,
            skip_rows=self.skip_rows or 0,
        )


class Settings(_Part):
    """Settings of a job for one site."""

    machines: Texts = Field(
        default=(), description="Machines at the site, as named in the rules' key column."
    )
    learning_rate: float | None = Field(default=None, description="Learning rate of this site.")
    local_epochs: int | None = Field(default=None, description="Local epochs of this site.")
    batch: int | None = Field(default=None, description="Minibatch size of this site.")
    knowledge: str | tuple[str, ...] | dict[str, Any] | None = Field(
        default=None,
        description="Knowledge of this site alone, as `sites.NAME.knowledge` of a job; paths are "
        "relative to the sites file.",
    )
    trust: float | str | None = Field(
        default=None, description="This site's trust in predictions: a share, or `cross_validate`."
    )


class Site(_Part):
    """The data of one site."""

    url: Texts = Field(
        default=(),
        description="Path of the site's table, relative to the sites file; of several paths the "
        "rows are read one after the other.",
    )
    metadata: str | None = Field(
        default=None, description="A CSVW metadata file with the `dialect` and the columns."
    )
    sheet: str | None = Field(default=None, description="Sheet of a workbook.")
    dialect: DialectSection = Field(
        default_factory=DialectSection, description="Form of the files."
    )
    table_schema: TableSchema = Field(
        default_factory=TableSchema, alias="tableSchema", description="The columns."
    )
    null: Texts = Field(default=(), description="Words for a missing value in any column.")
    datatype: Datatype = Field(
        default_factory=Datatype, description="Type and format of columns that state none."
    )
    timezone: str | None = Field(
        default=None, description="Zone of times without one: `Europe/Vienna`, `UTC`, `+01:00`."
    )
    settings: Settings = Field(
        default_factory=Settings, description="Settings of a job for this site."
    )
    suppress_output: bool = Field(
        default=False,
        alias="suppressOutput",
        description="The table is not a site; foreign keys can refer to it.",
    )

    @field_validator("url", "null", mode="before")
    @classmethod
    def _url_list(cls, value: Any) -> Any:
        return _as_list(value)

    @field_validator("dialect", "table_schema", mode="before")
    @classmethod
    def _inline(cls, value: Any) -> Any:
        if isinstance(value, str):
            raise ValueError("must be a section with fields: fedkg reads no other file for it")
        return value

    @model_validator(mode="after")
    def _has_files(self) -> Site:
        if not self.url:
            raise ValueError("`url` is missing, the path of the site's table")
        return self


class SitesFile(BaseModel):
    """A sites file after `load_sites`: paths resolved, common parts merged into each site.

    Attributes:
        path: the file, for messages.
        sites: the sites by name.
        lookups: described tables that are not sites.
        lines: line of each field in the file, by its path.
    """

    model_config = ConfigDict(frozen=True)

    path: str
    sites: dict[str, Site]
    lookups: dict[str, Site] = Field(default_factory=dict)
    lines: dict[tuple[str, ...], int] = Field(default_factory=dict)
