"""The teacher: the satisfying trace that is nearest to a predicted one."""

from fedkg.teacher.nearest_trace import Teacher

__all__ = ["Teacher"]
