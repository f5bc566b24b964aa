"""Servers that streams need: where they are (settings, or ours), and our own on this machine."""
