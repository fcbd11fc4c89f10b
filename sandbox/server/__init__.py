"""The supervisor's process. Entry point: `sandbox.server.supervise.main`; nothing is imported here."""
