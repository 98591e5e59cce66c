"""Acknowledged lanes and datagrams between each two nodes, over wires that come and go."""
