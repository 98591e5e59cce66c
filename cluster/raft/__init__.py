"""Raft without sockets, threads or clocks: elections, the replicated log, its members (Ongaro and Ousterhout, 2014)."""
