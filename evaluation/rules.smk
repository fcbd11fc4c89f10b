rule evaluate:
    """One checkpoint over all benchmarks of its plans, with the controls that need no sampling."""
    input:
        checkpoint=RUN.checkpoint_manifest("{checkpoint}"),
        data=RUN.data / MANIFEST,
        sandbox=RUN.build("sandbox"),
    output:
        RUN.summary("{checkpoint}"),
    log:
        RUN.log("evaluate_{checkpoint}"),
    wildcard_constraints:
        checkpoint="|".join(ENDS),
    priority: 5
    threads: WORKFLOW.config.runtime.threads
    params:
        sections=lambda wildcards: WORKFLOW.evaluation_sections(wildcards.checkpoint),
        runtime=RUNTIME,
        checkpoint=lambda wildcards: str(RUN.checkpoint(wildcards.checkpoint)),
        name="{checkpoint}",
        rings=str(RUN.data),
        out=lambda wildcards: str(RUN.evaluation(wildcards.checkpoint)),
        work=lambda wildcards: str(RUN.work(f"eval_{wildcards.checkpoint}")),
    shell:
        "python -m evaluation run --checkpoint {params.checkpoint} --name {params.name}"
        " --rings {params.rings} --out {params.out} --work {params.work}"
        " --sections {params.sections:q} --runtime {params.runtime} > {log} 2>&1"


# No later rule waits long for these. They run after the arms and use both cores at the end, when a last arm would leave
# one core idle.
use rule evaluate as evaluate_late with:
    wildcard_constraints:
        checkpoint="|".join(name for name in CHECKPOINTS if name not in ENDS),
    priority: 0


# One checkpoint at several temperatures, with enough samples for pass@k.
use rule evaluate as sampling_grid with:
    input:
        checkpoint=lambda wildcards: WORKFLOW.grid_checkpoint(wildcards.member)
        / MANIFEST,
        data=RUN.data / MANIFEST,
        sandbox=RUN.build("sandbox"),
    output:
        RUN.grid / "{member}" / SUMMARY,
    log:
        RUN.log("grid_{member}"),
    params:
        sections=lambda wildcards: WORKFLOW.grid_sections(wildcards.member),
        runtime=RUNTIME,
        checkpoint=lambda wildcards: str(WORKFLOW.grid_checkpoint(wildcards.member)),
        name=lambda wildcards: WORKFLOW.grid.stage_of(wildcards.member),
        rings=str(RUN.data),
        out=lambda wildcards: str(RUN.grid / wildcards.member),
        work=lambda wildcards: str(RUN.work(f"grid_{wildcards.member}")),
