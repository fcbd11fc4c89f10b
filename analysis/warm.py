"""Imports that the jobs of `analysis` share in a job server (`records.job_server`)."""

import scipy.stats
import statsmodels.stats.contingency_tables

import analysis.claims.claims_files
import analysis.claims.effects
import analysis.cli
import analysis.entropy.entropy_files
import analysis.figures
import analysis.inputs.lineage
import analysis.report.report
import analysis.report.verify
import analysis.tables
