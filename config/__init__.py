"""Configuration: sections, presets, and the view of each command.

Other packages import from these modules:

- `arms`: `ArmRun`, `load_arms`, `config_of_origin`, `view_of_arm`
- `command`: `one_line_errors`, `fail`
- `commands`: `PrepareView`, `CorpusView`, `BaseView`, `SftView`, `RolloutView`
- `contradictions`: `contradictions`, `impossible`, `release_adds_up`
- `model`: `ModelSection`, `DataSection`, `SandboxSection`, `RolloutSection`, `SftNoiseSection`
- `objective`: `RocSelection`, `Normalisation`, `ObjectiveSection`
- `options`: `Source`, `configured`
- `recipes`: `SourceSpec`, `ProblemSource`, `ConversationSource`, `MatchRule`, `ProblemPart`
- `resolve`: `resolve`
"""
