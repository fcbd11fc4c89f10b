SCORED = [name for name in ENDS if name in WORKFLOW.evaluated]


rule entropy:
    """Forking, reflection and coding tokens by segment; a coloured trace."""
    input:
        [RUN.score(name) / MANIFEST for name in SCORED],
    output:
        RUN.entropy_numbers,
    log:
        RUN.log("entropy"),
    params:
        sections=WORKFLOW.sections(commands.ANALYSIS),
        run=str(RUN.root),
        out=str(RUN.entropy),
    shell:
        "python -m analysis entropy --run {params.run} --out {params.out} --sections {params.sections:q}"
        " > {log} 2>&1"


rule claims_verdicts:
    """A computed verdict on every claim of the paper and the press."""
    input:
        [RUN.summary(name) for name in WORKFLOW.evaluated],
        [RUN.checkpoint_manifest(name) for name in TRAINED],
        [RUN.arm(name) for name in WORKFLOW.arms],
        RUN.bench("sandbox") / MANIFEST,
        RUN.bench("scheduler") / MANIFEST,
        RUN.entropy_numbers,
        "results/reference/claims.yaml",
    output:
        RUN.verdicts_on_claims,
    log:
        RUN.log("claims"),
    params:
        sections=WORKFLOW.sections(commands.ANALYSIS),
        run=str(RUN.root),
        out=str(RUN.claims),
    shell:
        "python -m analysis claims --run {params.run} --out {params.out} --sections {params.sections:q}"
        " > {log} 2>&1"


rule draw_figures:
    """Every figure, and the numbers of its plot."""
    input:
        [RUN.summary(name) for name in WORKFLOW.evaluated],
        [RUN.checkpoint_manifest(name) for name in TRAINED],
        [RUN.score(name) / MANIFEST for name in SCORED],
        [RUN.arm(name) for name in WORKFLOW.arms],
        RUN.bench("sandbox") / MANIFEST,
        RUN.bench("scheduler") / MANIFEST,
        "results/reference/paper.yaml",
    output:
        RUN.figures / MANIFEST,
    log:
        RUN.log("figures"),
    params:
        sections=WORKFLOW.sections(commands.ANALYSIS),
        run=str(RUN.root),
        out=str(RUN.figures),
    shell:
        "python -m analysis figures --run {params.run} --out {params.out} --sections {params.sections:q}"
        " > {log} 2>&1"


rule write_tables:
    """Scores of the run with the published ones, as CSV, Markdown and LaTeX."""
    input:
        [RUN.summary(name) for name in WORKFLOW.evaluated],
        [RUN.arm(name) for name in WORKFLOW.arms],
        "results/reference/paper.yaml",
    output:
        RUN.tables / MANIFEST,
    log:
        RUN.log("tables"),
    params:
        sections=WORKFLOW.sections(commands.ANALYSIS),
        run=str(RUN.root),
        out=str(RUN.tables),
    shell:
        "python -m analysis tables --run {params.run} --out {params.out} --sections {params.sections:q}"
        " > {log} 2>&1"


rule ablation_page:
    """Contrasts of the experiment arms and the sampling grid, on a separate page."""
    input:
        [RUN.arm(name) for name in WORKFLOW.ablations],
        [RUN.grid / member / SUMMARY for member in WORKFLOW.grid.members],
        "results/reference/claims.yaml",
    output:
        RUN.ablations / PAGE,
    log:
        RUN.log("ablations"),
    params:
        sections=WORKFLOW.sections(commands.ANALYSIS),
        run=str(RUN.root),
        arms=lambda wildcards: str(RUN.arms),
        out=str(RUN.ablations),
    shell:
        "(python -m analysis claims --run {params.run} --arms {params.arms} --out {params.out}"
        " --sections {params.sections:q}"
        " && python -m analysis ablations --run {params.run} --out {params.out} --sections {params.sections:q})"
        " > {log} 2>&1"


rule report:
    """One self-contained page, and report.json for machines."""
    input:
        RUN.figures / MANIFEST,
        RUN.tables / MANIFEST,
        RUN.verdicts_on_claims,
        RUN.entropy_numbers,
    output:
        RUN.report / PAGE,
        RUN.report / REPORT,
    log:
        RUN.log("report"),
    params:
        sections=WORKFLOW.sections(commands.ANALYSIS),
        run=str(RUN.root),
        out=str(RUN.report),
    shell:
        "python -m analysis report --run {params.run} --out {params.out} --sections {params.sections:q}"
        " > {log} 2>&1"


rule verify:
    """Checks of the run's files: digests, counts, controls. Always succeeds; the gate judges."""
    input:
        RUN.report / REPORT,
    output:
        RUN.checks,
    log:
        RUN.log("verify"),
    params:
        run=str(RUN.root),
    shell:
        "python -m analysis verify --run {params.run} --out {output} > {log} 2>&1"


rule gate:
    """Fail the run when a check fell short; the evidence stays."""
    input:
        RUN.checks,
    output:
        RUN.gate,
    log:
        RUN.log("gate"),
    shell:
        "python -m analysis gate {input} --out {output} > {log} 2>&1"
