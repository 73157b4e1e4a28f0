"""Agents with personal feasible sets: personalised constraints (Ebrahimi, Burbano and Yousefian
2026, PC-FedAvg).
"""
