"""Acknowledged lanes and datagrams between each two nodes, over streams that may break and be dialled again."""
