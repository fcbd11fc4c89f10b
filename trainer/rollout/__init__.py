"""Rollouts of tasks: prompt, loop, tool and tokenizer.

Other packages import from these modules:

- `chat_text`: `ChatText`, `live`, `turn_text`
- `chat`: `Codec`, `ChatFormat`, `parse_turn`, `response_text`, `chat_template`
- `chatml`: `chatml`, `follow_up`
- `draft`: `RolloutDraft`
- `episode`: `RolloutClock`, `Ended`, `Reply`, `TurnRead`
- `grading_thread`: `grading_thread`
- `prompt_fit`: `fitting`
- `sample_chunks`: `sample_in_chunks`
- `sampler`: `Sampler`, `open_sampler`, `require_positions`, `most_positions`, `rl_settings`
- `task`: `Task`, `RolloutSettings`
- `template_check`: `check_template`
- `terminal_chat`: `talk`
- `tokenizer`: `FolderCodec`, `transformers_tokenizer`, `control_of`, `train_tokenizer`, `save_tokenizer`
- `tool_episode`: `ToolEpisodes`
- `tool`: `open_tool`, `limits_of`
- `wake`: `Wake`
"""
