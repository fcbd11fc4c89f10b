rule scheduler_bench:
    """Every scheduling policy on the same simulated workloads, a short run."""
    output:
        RUN.bench("scheduler") / MANIFEST,
    log:
        RUN.log("scheduler_bench"),
    params:
        run=str(RUN.root),
    shell:
        "python -m trainer schedule --quick --run {params.run} > {log} 2>&1"


rule data:
    """Problems of every split, without duplicates between them."""
    output:
        RUN.data / MANIFEST,
    log:
        RUN.log("data"),
    priority: 10
    params:
        sections=WORKFLOW.sections(commands.PREPARE),
        runtime=RUNTIME,
    shell:
        "python -m trainer prepare --sections {params.sections:q} --runtime {params.runtime} > {log} 2>&1"


rule corpus:
    """SFT documents: the teacher's transcripts with real tool results."""
    input:
        RUN.data / MANIFEST,
        RUN.build("sandbox"),
    output:
        RUN.corpus / MANIFEST,
    log:
        RUN.log("corpus"),
    priority: 10
    threads: workflow.cores
    params:
        sections=WORKFLOW.sections(commands.CORPUS),
        runtime=RUNTIME,
    shell:
        "python -m trainer corpus --sections {params.sections:q} --runtime {params.runtime} > {log} 2>&1"


rule base:
    """The untrained checkpoint and its tokenizer."""
    input:
        RUN.corpus / MANIFEST,
    output:
        RUN.checkpoint_manifest("base"),
    log:
        RUN.log("base"),
    priority: 10
    params:
        sections=WORKFLOW.sections(commands.BASE),
        runtime=RUNTIME,
    shell:
        "python -m trainer base --sections {params.sections:q} --runtime {params.runtime} > {log} 2>&1"


rule sft:
    """Non-reasoning SFT; resumes from its working folder."""
    input:
        RUN.checkpoint_manifest("base"),
        RUN.corpus / MANIFEST,
    output:
        RUN.checkpoint_manifest("sft"),
    log:
        RUN.log("sft"),
    priority: 10
    threads: WORKFLOW.sft_threads
    params:
        sections=WORKFLOW.sections(commands.SFT),
        runtime=RUNTIME,
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
            RUN.checkpoint_manifest(stage),
        log:
            RUN.log(stage),
        priority: 10
        threads: WORKFLOW.config.runtime.threads
        params:
            stage=stage,
            sections=WORKFLOW.sections(commands.RL[stage]),
            runtime=RUNTIME,
        shell:
            "python -m trainer rl --stage {params.stage} --sections {params.sections:q} --runtime {params.runtime}"
            " > {log} 2>&1"


rule hard:
    """Problems that the policy before the filtered stage does not solve in every rollout."""
    input:
        RUN.checkpoint_manifest(FILTERED.parent),
        RUN.data / MANIFEST,
    output:
        RUN.hard / MANIFEST,
    log:
        RUN.log("hard"),
    priority: 10
    threads: WORKFLOW.config.runtime.threads
    params:
        sections=WORKFLOW.sections(commands.FILTER),
        runtime=RUNTIME,
    shell:
        "python -m trainer filter-hard --sections {params.sections:q} --runtime {params.runtime} > {log} 2>&1"


rule origin:
    """An SFT checkpoint beside the run's own, for the ablations."""
    input:
        RUN.corpus / MANIFEST,
        RUN.data / MANIFEST,
        RUN.build("sandbox"),
    output:
        RUN.origin("{origin}").checkpoint_manifest("sft"),
    log:
        RUN.log("origin_{origin}"),
    threads: WORKFLOW.sft_threads
    params:
        sections=lambda wildcards: WORKFLOW.origin_sections(wildcards.origin),
        runtime=RUNTIME,
    shell:
        "python -m evaluation origin --name {wildcards.origin} --sections {params.sections:q}"
        " --runtime {params.runtime} > {log} 2>&1"


rule arm_of_main:
    """The main run's stage 1, summarised as the arm roc_paper with seed 0."""
    input:
        RUN.checkpoint_manifest(RL_STAGES[0]),
        RUN.summary(RL_STAGES[0]),
    output:
        RUN.arm("roc_paper-main-0"),
    log:
        RUN.log("arm_roc_paper-main-0"),
    params:
        runtime=RUNTIME,
    shell:
        "python -m evaluation arm-of-main --runtime {params.runtime} > {log} 2>&1"


rule arm:
    """One experiment arm: its stages, the sealed test, a summary."""
    input:
        sft=lambda wildcards: WORKFLOW.sft_of(wildcards.origin),
        data=RUN.data / MANIFEST,
        sandbox=RUN.build("sandbox"),
    output:
        RUN.arm("{arm}-{origin}-{seed}"),
    log:
        RUN.log("arm_{arm}-{origin}-{seed}"),
    priority: 3
    threads: WORKFLOW.config.runtime.threads
    params:
        sections=lambda wildcards: WORKFLOW.arm_sections(
            wildcards.arm, wildcards.origin, int(wildcards.seed)
        ),
        runtime=RUNTIME,
    shell:
        "python -m evaluation arm --name {wildcards.arm} --origin {wildcards.origin} --seed {wildcards.seed}"
        " --sections {params.sections:q} --runtime {params.runtime} > {log} 2>&1"


ruleorder: arm_of_main > arm


rule score:
    """Entropy, log-prob and rank of every sampled token of some evaluated trajectories."""
    input:
        checkpoint=RUN.checkpoint_manifest("{checkpoint}"),
        summary=RUN.summary("{checkpoint}"),
    output:
        RUN.score("{checkpoint}") / MANIFEST,
    log:
        RUN.log("score_{checkpoint}"),
    priority: 5
    threads: WORKFLOW.config.runtime.threads
    params:
        sections=WORKFLOW.sections(commands.SCORE),
        runtime=RUNTIME,
        checkpoint=lambda wildcards: str(RUN.checkpoint(wildcards.checkpoint)),
        samples=lambda wildcards: str(RUN.samples(wildcards.checkpoint)),
        out=lambda wildcards: str(RUN.score(wildcards.checkpoint)),
    shell:
        "python -m trainer score --checkpoint {params.checkpoint} --samples {params.samples} --out {params.out}"
        " --sections {params.sections:q} --runtime {params.runtime} > {log} 2>&1"
