rule scheduler_bench:
    """Every scheduling policy on the same simulated workloads, a short run."""
    output:
        f"{RUN}/bench/scheduler.json",
    log:
        f"{RUN}/logs/scheduler_bench.log",
    shell:
        "python -m trainer schedule --quick --json > {output} 2> {log}"


rule data:
    """Problems of every split, without duplicates between them."""
    output:
        f"{RUN}/data/manifest.json",
    log:
        f"{RUN}/logs/data.log",
    priority: 10
    params:
        sections=WORKFLOW.sections(commands.PREPARE),
        runtime=f"{RUN}/runtime.json",
    shell:
        "python -m trainer prepare --sections {params.sections:q} --runtime {params.runtime} > {log} 2>&1"


rule corpus:
    """SFT documents: the teacher's transcripts with real tool results."""
    input:
        f"{RUN}/data/manifest.json",
        f"{RUN}/build/sandbox.json",
    output:
        f"{RUN}/corpus/manifest.json",
    log:
        f"{RUN}/logs/corpus.log",
    priority: 10
    threads: workflow.cores
    params:
        sections=WORKFLOW.sections(commands.CORPUS),
        runtime=f"{RUN}/runtime.json",
    shell:
        "python -m trainer corpus --sections {params.sections:q} --runtime {params.runtime} > {log} 2>&1"


rule base:
    """The untrained checkpoint and its tokenizer."""
    input:
        f"{RUN}/corpus/manifest.json",
    output:
        f"{RUN}/checkpoints/base/manifest.json",
    log:
        f"{RUN}/logs/base.log",
    priority: 10
    params:
        sections=WORKFLOW.sections(commands.BASE),
        runtime=f"{RUN}/runtime.json",
    shell:
        "python -m trainer base --sections {params.sections:q} --runtime {params.runtime} > {log} 2>&1"


rule sft:
    """Non-reasoning SFT; resumes from its working folder."""
    input:
        f"{RUN}/checkpoints/base/manifest.json",
        f"{RUN}/corpus/manifest.json",
    output:
        f"{RUN}/checkpoints/sft/manifest.json",
    log:
        f"{RUN}/logs/sft.log",
    priority: 10
    threads: WORKFLOW.sft_threads
    params:
        sections=WORKFLOW.sections(commands.SFT),
        runtime=f"{RUN}/runtime.json",
    shell:
        "python -m trainer sft --sections {params.sections:q} --runtime {params.runtime} > {log} 2>&1"


for stage in RL_STAGES:

    rule:
        """One RL stage of GRPO-RoC from its parent's checkpoint; resumes from its working folder."""
        name:
            stage
        input:
            WORKFLOW.inputs_of_stage(stage),
        output:
            f"{RUN}/checkpoints/{stage}/manifest.json",
        log:
            f"{RUN}/logs/{stage}.log",
        priority: 10
        threads: WORKFLOW.config.runtime.threads.rl
        params:
            stage=stage,
            sections=WORKFLOW.sections(commands.RL[stage]),
            runtime=f"{RUN}/runtime.json",
        shell:
            "python -m trainer rl --stage {params.stage} --sections {params.sections:q} --runtime {params.runtime}"
            " > {log} 2>&1"


rule hard:
    """Problems that the policy before the filtered stage does not solve in every rollout."""
    input:
        f"{RUN}/checkpoints/{FILTERED.parent}/manifest.json",
        f"{RUN}/data/manifest.json",
    output:
        f"{RUN}/hard/manifest.json",
    log:
        f"{RUN}/logs/hard.log",
    priority: 10
    threads: WORKFLOW.config.runtime.threads.eval
    params:
        sections=WORKFLOW.sections(commands.FILTER),
        runtime=f"{RUN}/runtime.json",
    shell:
        "python -m trainer filter-hard --sections {params.sections:q} --runtime {params.runtime} > {log} 2>&1"


rule origin:
    """An SFT checkpoint beside the run's own, for the ablations."""
    input:
        f"{RUN}/corpus/manifest.json",
        f"{RUN}/data/manifest.json",
        f"{RUN}/build/sandbox.json",
    output:
        f"{RUN}/origins/{{origin}}/checkpoints/sft/manifest.json",
    log:
        f"{RUN}/logs/origin_{{origin}}.log",
    threads: WORKFLOW.sft_threads
    params:
        sections=lambda wildcards: WORKFLOW.origin_sections(wildcards.origin),
        runtime=f"{RUN}/runtime.json",
    shell:
        "python -m evaluation origin --name {wildcards.origin} --sections {params.sections:q}"
        " --runtime {params.runtime} > {log} 2>&1"


rule arm_of_main:
    """The main run's stage 1, summarised as the arm roc_paper with seed 0."""
    input:
        f"{RUN}/checkpoints/{RL_STAGES[0]}/manifest.json",
        f"{RUN}/eval/{RL_STAGES[0]}/summary.json",
    output:
        f"{RUN}/arms/roc_paper-main-0.json",
    log:
        f"{RUN}/logs/arm_roc_paper-main-0.log",
    params:
        runtime=f"{RUN}/runtime.json",
    shell:
        "python -m evaluation arm-of-main --runtime {params.runtime} > {log} 2>&1"


rule arm:
    """One experiment arm: its stages, the sealed test, a summary."""
    input:
        sft=lambda wildcards: WORKFLOW.sft_of(wildcards.origin),
        data=f"{RUN}/data/manifest.json",
        sandbox=f"{RUN}/build/sandbox.json",
    output:
        f"{RUN}/arms/{{arm}}-{{origin}}-{{seed}}.json",
    log:
        f"{RUN}/logs/arm_{{arm}}-{{origin}}-{{seed}}.log",
    priority: 3
    threads: WORKFLOW.config.runtime.threads.rl
    params:
        sections=lambda wildcards: WORKFLOW.arm_sections(
            wildcards.arm, wildcards.origin, int(wildcards.seed)
        ),
        runtime=f"{RUN}/runtime.json",
    shell:
        "python -m evaluation arm --name {wildcards.arm} --origin {wildcards.origin} --seed {wildcards.seed}"
        " --sections {params.sections:q} --runtime {params.runtime} > {log} 2>&1"


ruleorder: arm_of_main > arm


rule score:
    """Entropy, log-prob and rank of every sampled token of some evaluated trajectories."""
    input:
        checkpoint=f"{RUN}/checkpoints/{{checkpoint}}/manifest.json",
        summary=f"{RUN}/eval/{{checkpoint}}/summary.json",
    output:
        f"{RUN}/score/{{checkpoint}}/manifest.json",
    log:
        f"{RUN}/logs/score_{{checkpoint}}.log",
    priority: 5
    threads: WORKFLOW.config.runtime.threads.eval
    params:
        sections=WORKFLOW.sections(commands.SCORE),
        runtime=f"{RUN}/runtime.json",
        checkpoint=lambda wildcards: f"{RUN}/checkpoints/{wildcards.checkpoint}",
        samples=lambda wildcards: f"{RUN}/eval/{wildcards.checkpoint}/samples.parquet",
        out=lambda wildcards: f"{RUN}/score/{wildcards.checkpoint}",
    shell:
        "python -m trainer score --checkpoint {params.checkpoint} --samples {params.samples} --out {params.out}"
        " --sections {params.sections:q} --runtime {params.runtime} > {log} 2>&1"
