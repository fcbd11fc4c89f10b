"""BFCL: calls of a response, and the published checker for them.

Other packages import from these modules:

- `calls`: `Kind`, `kind_of`, `Unjudged`, `check`, `published_checker`
- `entry`: `entry_of`
- `episodes`: `Ran`, `BackendFailed`, `Conversation`, `grade_conversation`
- `prompts`: `Mode`, `shown`
"""
