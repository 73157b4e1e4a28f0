"""Properties of time series, mined from each client's data, in federated training (An, Johnson and
Ma 2024, FedSTL).
"""
