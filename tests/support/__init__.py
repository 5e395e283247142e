"""Builders and brute-force references that several tests share."""
