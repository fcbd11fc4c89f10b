"""Fork servers and their children. Entry point: `sandbox.child.fork_server.main`; nothing is imported here."""
