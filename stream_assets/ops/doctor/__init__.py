"""The doctor: whether this installation is in order, and what to do where it is not."""
