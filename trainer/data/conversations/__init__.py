"""SFT conversations: one record, and a module per source that turns its rows into it.

Other packages import from these modules:

- `conversation`: `Call`, `Message`, `Conversation`, `Converter`, `parsed`
- `openai`: `messages_of`
- `pieces`: `pieces_of`
- `sharegpt`: `convert`, `calls_of`
"""
