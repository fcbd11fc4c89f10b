"""The targets, from an empty checkout to a report. Rules are in the package of their code."""

from snakemake.utils import min_version

from analysis.report.closing import closing_lines
from config import commands
from config.workflow import Workflow
from records.stages import CHECKPOINTS, ENDS, FILTERED, RL_STAGES, TRAINED
from trainer.start import require_start

min_version("9.18")


configfile: "config/tiny.yaml"


WORKFLOW = Workflow.start(
    workflow.config_settings.configfiles,
    workflow.config_settings.config,
    is_main=workflow.is_main_process,
    folds=not (workflow.output_settings.verbose or workflow.output_settings.dryrun),
)
RUN = WORKFLOW.run


wildcard_constraints:
    checkpoint="|".join(CHECKPOINTS),
    member="[a-z0-9_]+",
    arm="[a-z0-9_]+",
    origin="[a-z0-9_]+",
    seed="[0-9]+",


rule reproduce:
    default_target: True
    input:
        f"{RUN}/report/report.json",
        f"{RUN}/report/index.html",
        f"{RUN}/gate.json",


rule ablations:
    input:
        f"{RUN}/ablations/index.html",


rule figures:
    input:
        f"{RUN}/figures/manifest.json",


rule tables:
    input:
        f"{RUN}/tables/manifest.json",


rule evaluate_all:
    input:
        expand(f"{RUN}/eval/{{checkpoint}}/summary.json", checkpoint=WORKFLOW.evaluated),


include: "sandbox/rules.smk"
include: "trainer/rules.smk"
include: "evaluation/rules.smk"
include: "analysis/rules.smk"


onstart:
    WORKFLOW.begin(
        [(job.rule.name, job.rule.shellcmd) for job in workflow.dag.needrun_jobs()],
        require_start,
        is_local=workflow.local_exec,
        is_verbose=workflow.output_settings.verbose,
    )


onsuccess:
    for line in closing_lines(RUN):
        print(line)
