"""The teacher: the satisfying trace nearest to a predicted one."""

from fedkg.teacher.closest import Teacher

__all__ = ["Teacher"]
