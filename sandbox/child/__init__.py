"""Fork servers and their children. The entry point is `sandbox.child.fork_server.main`; this file imports nothing."""
