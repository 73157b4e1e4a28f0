"""Feasible sets: what parameters and predictions are kept in."""

from fedkg.projection.balls import L1Ball, L2Ball, LInfBall
from fedkg.projection.boxes import Affine, Box, HalfSpace
from fedkg.projection.combined import Intersection, Product
from fedkg.projection.cones import SecondOrderCone
from fedkg.projection.interface import ProjectionSet
from fedkg.projection.kept import set_of
from fedkg.projection.monotone import MonotoneCone
from fedkg.projection.polytope import Polytope, Solved, project_polytope
from fedkg.projection.recognise import recognised
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
    "Product",
    "ProjectionSet",
    "SecondOrderCone",
    "Simplex",
    "Solved",
    "project_polytope",
    "recognised",
    "set_of",
]
