"""The views: tables that answer questions about a log. Each module has one, and its docstring defines the columns."""
