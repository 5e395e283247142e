"""Shared code of the comparisons and of the reproduction of the paper: tasks, summaries over seeds, figures."""
