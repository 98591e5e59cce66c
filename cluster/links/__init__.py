"""Acknowledged lanes and datagrams between each two nodes, over wires that may break and be dialled again."""
