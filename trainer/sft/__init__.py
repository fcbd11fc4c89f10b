"""SFT: the procedural corpus, recorded conversations, and training on them.

Other packages import from these modules:

- `conversations`: `publish_conversations`, `corpus_texts`
- `corpus`: `Document`, `build_corpus`, `read_documents`, `row_of_document`
- `rewriting`: `Rewriter`
- `sft`: `run_sft`
"""
