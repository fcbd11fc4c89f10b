"""Updates of the weights: micro-batches, log-probs, loss, optimizers.

Other packages import from these modules:

- `grpo`: `UpdateBatch`, `UpdateMetrics`, `GrpoTrainer`
- `micro_batches`: `MicroBatch`, `padded_schedule`, `pad`
- `optimizer`: `adamw`, `muon_and_adamw`, `set_lr`, `lr_factor`, `save_optimizers`
- `scoring`: `score_batch`, `table_batch`
- `training_rows`: `Row`, `unusable`, `row_of`
"""
