"""Views: who is in the cluster, who is alive, and who may promise what (architecture 5)."""
