"""Feasible sets for parameters and predictions, with projections onto them."""

from fedkg.projection.balls import L1Ball, L2Ball, LInfBall
from fedkg.projection.boxes_and_halfspaces import Affine, Box, HalfSpace
from fedkg.projection.closed_form_recognition import recognise_closed_form
from fedkg.projection.composite_sets import Intersection, Product
from fedkg.projection.monotone import MonotoneCone
from fedkg.projection.pack_sets import feasible_set
from fedkg.projection.polytope import Polytope, PolytopeProjection, project_polytope
from fedkg.projection.projection_set import ProjectionSet
from fedkg.projection.second_order_cone import SecondOrderCone
from fedkg.projection.simplex import CappedSimplex, Simplex

__all__ = [
    "Affine",
    "Box",
    "CappedSimplex",
    "HalfSpace",
    "Intersection",
    "L1Ball",
    "L2Ball",
    "LInfBall",
    "MonotoneCone",
    "Polytope",
    "PolytopeProjection",
    "Product",
    "ProjectionSet",
    "SecondOrderCone",
    "Simplex",
    "feasible_set",
    "project_polytope",
    "recognise_closed_form",
]
