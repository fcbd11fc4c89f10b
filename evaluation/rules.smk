rule evaluate:
    """One checkpoint over all benchmarks of its plans, with the controls that need no sampling."""
    input:
        checkpoint=f"{RUN}/checkpoints/{{checkpoint}}/manifest.json",
        data=f"{RUN}/data/manifest.json",
        sandbox=f"{RUN}/build/sandbox.json",
    output:
        f"{RUN}/eval/{{checkpoint}}/summary.json",
    log:
        f"{RUN}/logs/evaluate_{{checkpoint}}.log",
    wildcard_constraints:
        checkpoint="|".join(ENDS),
    priority: 5
    threads: WORKFLOW.config.runtime.threads.eval
    params:
        sections=lambda wildcards: WORKFLOW.evaluation_sections(wildcards.checkpoint),
        runtime=f"{RUN}/runtime.json",
        checkpoint=lambda wildcards: f"{RUN}/checkpoints/{wildcards.checkpoint}",
        name="{checkpoint}",
        rings=f"{RUN}/data",
        out=lambda wildcards: f"{RUN}/eval/{wildcards.checkpoint}",
        work=lambda wildcards: f"{RUN}/work/eval_{wildcards.checkpoint}",
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
        checkpoint=lambda wildcards: (
            f"{WORKFLOW.grid_checkpoint(wildcards.member)}/manifest.json"
        ),
        data=f"{RUN}/data/manifest.json",
        sandbox=f"{RUN}/build/sandbox.json",
    output:
        f"{RUN}/grid/{{member}}/summary.json",
    log:
        f"{RUN}/logs/grid_{{member}}.log",
    params:
        sections=lambda wildcards: WORKFLOW.grid_sections(wildcards.member),
        runtime=f"{RUN}/runtime.json",
        checkpoint=lambda wildcards: WORKFLOW.grid_checkpoint(wildcards.member),
        name=lambda wildcards: WORKFLOW.grid.stage_of(wildcards.member),
        rings=f"{RUN}/data",
        out=lambda wildcards: f"{RUN}/grid/{wildcards.member}",
        work=lambda wildcards: f"{RUN}/work/grid_{wildcards.member}",
