"""SFT conversations: one record, and a module per source that turns its rows into it."""
