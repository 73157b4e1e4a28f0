"""The constraint pack: compiled rules as data. Needs numpy, pydantic and safetensors alone."""

from fedkg.pack.bank import Bank, MemberTable, skeleton_hash
from fedkg.pack.contract import Column, DataContract, View
from fedkg.pack.file import load, pack_bytes, read_pack, save
from fedkg.pack.formulas import And, AtLeast, CategoryIs, ClassIn, Compare, Formula, Implies, Initially, Known, Not, Or, Temporal, Until
from fedkg.pack.inference import Inference, MinedParameter
from fedkg.pack.manifest import FORMAT, SECTIONS, Kind, Manifest, Placement, Provenance, RuleRecord, Section, Source
from fedkg.pack.pack import Pack
from fedkg.pack.terms import Call, Choose, Coalesce, Function, Negate, Param, Power, Product, Quotient, Reduce, Role, Slot, Sum, Term
from fedkg.pack.walk import atoms, everywhere, is_temporal, reads_output, subterms, term_children, used_params, used_slots

__all__ = [
    "FORMAT",
    "SECTIONS",
    "And",
    "AtLeast",
    "Bank",
    "Call",
    "CategoryIs",
    "Choose",
    "ClassIn",
    "Coalesce",
    "Column",
    "Compare",
    "DataContract",
    "Formula",
    "Function",
    "Implies",
    "Inference",
    "Initially",
    "Kind",
    "Known",
    "Manifest",
    "MemberTable",
    "MinedParameter",
    "Negate",
    "Not",
    "Or",
    "Pack",
    "Param",
    "Placement",
    "Power",
    "Product",
    "Provenance",
    "Quotient",
    "Reduce",
    "Role",
    "RuleRecord",
    "Section",
    "Slot",
    "Source",
    "Sum",
    "Temporal",
    "Term",
    "Until",
    "View",
    "atoms",
    "everywhere",
    "is_temporal",
    "load",
    "pack_bytes",
    "read_pack",
    "reads_output",
    "save",
    "skeleton_hash",
    "subterms",
    "term_children",
    "used_params",
    "used_slots",
]
