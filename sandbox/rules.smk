rule sandbox_check:
    """Isolation layers found on this machine; refuses below the minimum."""
    output:
        f"{RUN}/build/sandbox.json",
    log:
        f"{RUN}/logs/sandbox_check.log",
    shell:
        "python -m sandbox doctor --json > {output} 2> {log}"


rule sandbox_bench:
    """Throughput and latency of the sandbox, a short run."""
    input:
        f"{RUN}/build/sandbox.json",
    output:
        f"{RUN}/bench/sandbox.json",
    log:
        f"{RUN}/logs/sandbox_bench.log",
    threads: workflow.cores
    shell:
        "python -m sandbox bench --quick --json > {output} 2> {log}"
