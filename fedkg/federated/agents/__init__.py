"""Agents with feasible sets of their own: personalised constraints (Ebrahimi, Burbano and Yousefian 2026, PC-FedAvg)."""
