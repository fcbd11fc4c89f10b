"""The targets, from an empty checkout to a report. Rules are in the package of their code."""

from snakemake.utils import min_version

from analysis.report.closing import closing_lines
from config import commands
from config.workflow import Workflow
from records.manifest import MANIFEST
from records.run_folder import PAGE, REPORT, SUMMARY
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
RUN = WORKFLOW.folder
RUNTIME = str(RUN.runtime)


wildcard_constraints:
    checkpoint="|".join(CHECKPOINTS),
    member="[a-z0-9_]+",
    arm="[a-z0-9_]+",
    origin="[a-z0-9_]+",
    seed="[0-9]+",


rule reproduce:
    default_target: True
    input:
        RUN.report / REPORT,
        RUN.report / PAGE,
        RUN.gate,


rule ablations:
    input:
        RUN.ablations / PAGE,


rule figures:
    input:
        RUN.figures / MANIFEST,


rule tables:
    input:
        RUN.tables / MANIFEST,


rule evaluate_all:
    input:
        [RUN.summary(name) for name in WORKFLOW.evaluated],


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
