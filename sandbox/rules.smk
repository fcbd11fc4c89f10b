rule sandbox_check:
    """Isolation layers found on this machine; refuses below the minimum."""
    output:
        RUN.build("sandbox"),
    log:
        RUN.log("sandbox_check"),
    shell:
        "python -m sandbox doctor --json > {output} 2> {log}"


rule sandbox_bench:
    """Throughput and latency of the sandbox, a short run."""
    input:
        RUN.build("sandbox"),
    output:
        RUN.bench("sandbox") / MANIFEST,
    log:
        RUN.log("sandbox_bench"),
    threads: workflow.cores
    params:
        run=str(RUN.root),
    shell:
        "python -m sandbox bench --quick --json --run {params.run} > {log} 2>&1"
