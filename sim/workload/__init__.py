"""Model clients: their protocol, their behaviour, and the seed's choice of them."""
