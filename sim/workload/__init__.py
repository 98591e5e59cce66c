"""What model clients do, and how a seed draws them."""
