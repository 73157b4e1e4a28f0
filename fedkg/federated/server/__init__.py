"""What the server does in a round: who takes part, what counts, how updates become one."""
