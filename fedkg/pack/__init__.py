"""The constraint pack: compiled rules as data. Needs numpy, pydantic and safetensors alone."""

from fedkg.pack.bank import Bank, skeleton_hash
from fedkg.pack.contract import Column, DataContract, View
from fedkg.pack.file import load, pack_bytes, read_pack, save
from fedkg.pack.formulas import And, CategoryIs, ClassIn, Compare, Formula, Implies, Not, Or
from fedkg.pack.manifest import FORMAT, SECTIONS, Kind, Manifest, Provenance, RuleRecord, Section, Source
from fedkg.pack.pack import Pack
from fedkg.pack.terms import Call, Function, Negate, Param, Power, Product, Quotient, Role, Slot, Sum, Term
from fedkg.pack.validate import atoms, subterms, term_children, used_slots

__all__ = [
    "FORMAT",
    "SECTIONS",
    "And",
    "Bank",
    "Call",
    "CategoryIs",
    "ClassIn",
    "Column",
    "Compare",
    "DataContract",
    "Formula",
    "Function",
    "Implies",
    "Kind",
    "Manifest",
    "Negate",
    "Not",
    "Or",
    "Pack",
    "Param",
    "Power",
    "Product",
    "Provenance",
    "Quotient",
    "Role",
    "RuleRecord",
    "Section",
    "Slot",
    "Source",
    "Sum",
    "Term",
    "View",
    "atoms",
    "load",
    "pack_bytes",
    "read_pack",
    "save",
    "skeleton_hash",
    "subterms",
    "term_children",
    "used_slots",
]
