"""Webhook servers and tunnels."""
