"""Federated Granger causality: who drives whom, learnt from low-dimensional states alone (Mohanty,
Mohamed, Ramanan, Gebraeel 2025).
"""
