"""Code of the supervisor process. The entry point is `sandbox.server.supervise.main`; this file imports nothing."""
