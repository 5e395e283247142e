"""What the comparisons and the reproduction of the paper share: tasks, sums over seeds, pictures of them."""
