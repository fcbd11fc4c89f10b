SCORED = [name for name in ENDS if name in WORKFLOW.evaluated]


rule entropy:
    """Forking, reflection and coding tokens by segment; a coloured trace."""
    input:
        expand(f"{RUN}/score/{{checkpoint}}/manifest.json", checkpoint=SCORED),
    output:
        f"{RUN}/entropy/entropy.json",
    log:
        f"{RUN}/logs/entropy.log",
    params:
        sections=WORKFLOW.sections(commands.ANALYSIS),
        run=RUN,
        out=f"{RUN}/entropy",
    shell:
        "python -m analysis entropy --run {params.run} --out {params.out} --sections {params.sections:q}"
        " > {log} 2>&1"


rule claims_verdicts:
    """A computed verdict on every claim of the paper and the press."""
    input:
        expand(f"{RUN}/eval/{{checkpoint}}/summary.json", checkpoint=WORKFLOW.evaluated),
        expand(
            f"{RUN}/checkpoints/{{stage}}/manifest.json",
            stage=TRAINED,
        ),
        expand(f"{RUN}/arms/{{name}}.json", name=WORKFLOW.arms),
        f"{RUN}/bench/sandbox.json",
        f"{RUN}/bench/scheduler.json",
        f"{RUN}/entropy/entropy.json",
        "results/reference/claims.yaml",
    output:
        f"{RUN}/claims/claims.json",
    log:
        f"{RUN}/logs/claims.log",
    params:
        sections=WORKFLOW.sections(commands.ANALYSIS),
        run=RUN,
        out=f"{RUN}/claims",
    shell:
        "python -m analysis claims --run {params.run} --out {params.out} --sections {params.sections:q}"
        " > {log} 2>&1"


rule draw_figures:
    """Every figure, and the numbers of its plot."""
    input:
        expand(f"{RUN}/eval/{{checkpoint}}/summary.json", checkpoint=WORKFLOW.evaluated),
        expand(
            f"{RUN}/checkpoints/{{stage}}/manifest.json",
            stage=TRAINED,
        ),
        expand(f"{RUN}/score/{{checkpoint}}/manifest.json", checkpoint=SCORED),
        expand(f"{RUN}/arms/{{name}}.json", name=WORKFLOW.arms),
        f"{RUN}/bench/sandbox.json",
        f"{RUN}/bench/scheduler.json",
        "results/reference/paper.yaml",
    output:
        f"{RUN}/figures/manifest.json",
    log:
        f"{RUN}/logs/figures.log",
    params:
        sections=WORKFLOW.sections(commands.ANALYSIS),
        run=RUN,
        out=f"{RUN}/figures",
    shell:
        "python -m analysis figures --run {params.run} --out {params.out} --sections {params.sections:q}"
        " > {log} 2>&1"


rule write_tables:
    """Scores of the run with the published ones, as CSV, Markdown and LaTeX."""
    input:
        expand(f"{RUN}/eval/{{checkpoint}}/summary.json", checkpoint=WORKFLOW.evaluated),
        expand(f"{RUN}/arms/{{name}}.json", name=WORKFLOW.arms),
        "results/reference/paper.yaml",
    output:
        f"{RUN}/tables/manifest.json",
    log:
        f"{RUN}/logs/tables.log",
    params:
        sections=WORKFLOW.sections(commands.ANALYSIS),
        run=RUN,
        out=f"{RUN}/tables",
    shell:
        "python -m analysis tables --run {params.run} --out {params.out} --sections {params.sections:q}"
        " > {log} 2>&1"


rule ablation_page:
    """Contrasts of the experiment arms and the sampling grid, on a separate page."""
    input:
        expand(f"{RUN}/arms/{{name}}.json", name=WORKFLOW.ablations),
        expand(f"{RUN}/grid/{{member}}/summary.json", member=WORKFLOW.grid.members),
        "results/reference/claims.yaml",
    output:
        f"{RUN}/ablations/index.html",
    log:
        f"{RUN}/logs/ablations.log",
    params:
        sections=WORKFLOW.sections(commands.ANALYSIS),
        run=RUN,
        out=f"{RUN}/ablations",
    shell:
        "(python -m analysis claims --run {params.run} --arms {params.run}/arms --out {params.out}"
        " --sections {params.sections:q}"
        " && python -m analysis ablations --run {params.run} --out {params.out} --sections {params.sections:q})"
        " > {log} 2>&1"


rule report:
    """One self-contained page, and report.json for machines."""
    input:
        f"{RUN}/figures/manifest.json",
        f"{RUN}/tables/manifest.json",
        f"{RUN}/claims/claims.json",
        f"{RUN}/entropy/entropy.json",
    output:
        f"{RUN}/report/index.html",
        f"{RUN}/report/report.json",
    log:
        f"{RUN}/logs/report.log",
    params:
        sections=WORKFLOW.sections(commands.ANALYSIS),
        run=RUN,
        out=f"{RUN}/report",
    shell:
        "python -m analysis report --run {params.run} --out {params.out} --sections {params.sections:q}"
        " > {log} 2>&1"


rule verify:
    """Checks of the run's files: digests, counts, controls. Always succeeds; the gate judges."""
    input:
        f"{RUN}/report/report.json",
    output:
        f"{RUN}/verify.json",
    log:
        f"{RUN}/logs/verify.log",
    params:
        run=RUN,
    shell:
        "python -m analysis verify --run {params.run} --out {output} > {log} 2>&1"


rule gate:
    """Fail the run when a check fell short; the evidence stays."""
    input:
        f"{RUN}/verify.json",
    output:
        f"{RUN}/gate.json",
    log:
        f"{RUN}/logs/gate.log",
    shell:
        "python -m analysis gate {input} --out {output} > {log} 2>&1"
