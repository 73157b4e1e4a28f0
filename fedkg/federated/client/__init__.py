"""What a client does in a round: where it begins, what it minimises, how it steps, how its update
travels.
"""
