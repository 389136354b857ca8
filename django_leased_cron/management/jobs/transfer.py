"""``leased_jobs export`` and ``import``: jobs with their schedules and policies, as JSON."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from celery import current_app
from django.core.management.base import CommandError, CommandParser

from django_leased_cron.exceptions import ConfigurationError
from django_leased_cron.job_tools.transfer.beat_schedule import read_beat_entries
from django_leased_cron.job_tools.transfer.definition import to_entry
from django_leased_cron.job_tools.transfer.entries import Entry, UnreadableSourceError, read_file_entries
from django_leased_cron.job_tools.transfer.importing import ImportedJob, plan_import, write_import
from django_leased_cron.job_tools.transfer.reading import read_known_jobs
from django_leased_cron.job_tools.transfer.redbeat import read_redbeat_entries
from django_leased_cron.management.exit_codes import FOUND, misconfigured
from django_leased_cron.management.jobs.choice import add_names, choose_jobs, refuse_nobody
from django_leased_cron.management.jobs.subcommand import Answer, Options, Subcommand, present
from django_leased_cron.setting_values import suggestion
from django_leased_cron.tenants import Tenant

_HEADERS: Final = ("TENANT", "JOB", "ACTION", "CHANGED")
_STANDARD_INPUT: Final = "-"


def _add_export_arguments(parser: CommandParser) -> None:
    add_names(parser, nargs="*", help="Only these jobs.")


def _export(tenants: Sequence[Tenant], options: Options) -> Answer:
    names: Sequence[str] = options["names"]
    if names:
        known = {
            tenant: read_known_jobs(tenant, job_ids=jobs.values())
            for tenant, jobs in choose_jobs(tenants, names).items()
        }
    else:
        known = {tenant: read_known_jobs(tenant) for tenant in tenants}
    entries = [
        {"tenant": tenant.key, **to_entry(job.definition)}
        for tenant, jobs in known.items()
        for job in jobs
        if job.definition is not None
    ]
    problems = [
        f"Tenant {tenant.key!r}, job {job.name!r}, left out: {problem}"
        for tenant, jobs in known.items()
        for job in jobs
        for problem in job.problems
    ]
    return Answer(output=json.dumps(entries, indent=2), failure="\n".join(problems))


def _add_import_arguments(parser: CommandParser) -> None:
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("file", nargs="?", metavar="FILE", help="What export has written; - for standard input.")
    source.add_argument("--from-settings", action="store_true", help="The Celery app's beat_schedule instead.")
    source.add_argument("--from-redbeat", action="store_true", help="What RedBeat keeps in Redis instead.")
    parser.add_argument("--dry-run", action="store_true", help="Write nothing; say what would be written.")


def _import(tenants: Sequence[Tenant], options: Options) -> Answer:
    refuse_nobody(tenants)
    try:
        entries = _read_entries(options)
    except UnreadableSourceError as exc:
        raise misconfigured([str(exc)]) from exc
    except ConfigurationError as exc:
        raise misconfigured(list(exc.problems)) from exc
    except ImportError as exc:
        raise misconfigured([f"A task module cannot be imported: {exc}"]) from exc
    if not entries:
        raise CommandError("There is no job to import.", returncode=FOUND)
    plan = plan_import(_distribute(entries, tenants))
    if isinstance(plan, list):
        raise misconfigured([*plan, "Nothing was imported."])
    if not options["dry_run"]:
        write_import(plan)
    output = present(plan.describe(), options, headers=_HEADERS, describe=_describe, empty="")
    if options["dry_run"] and not options["json"]:
        output += "\n\nNothing was written: a dry run."
    return Answer(output=output)


def _read_entries(options: Options) -> Sequence[Entry]:
    if options["from_settings"]:
        return read_beat_entries(current_app)
    if options["from_redbeat"]:
        return read_redbeat_entries(current_app)
    file: str = options["file"]
    try:
        text = sys.stdin.read() if file == _STANDARD_INPUT else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise UnreadableSourceError(file, str(exc)) from exc
    return read_file_entries(text, source=file)


def _distribute(entries: Sequence[Entry], tenants: Sequence[Tenant]) -> Mapping[Tenant, Sequence[Entry]]:
    """Return the entries by tenant; those that name none belong to the only one."""
    by_key = {tenant.key: tenant for tenant in tenants}
    problems: list[str] = []
    distributed: defaultdict[Tenant, list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.tenant_key is None and len(tenants) > 1:
            problems.append(f"Job {entry.name!r} names no tenant. Choose one with --tenant.")
        elif entry.tenant_key is not None and entry.tenant_key not in by_key:
            hint = suggestion(entry.tenant_key, by_key) or f"Chosen are: {', '.join(map(repr, by_key))}."
            problems.append(f"Job {entry.name!r}: there is no tenant {entry.tenant_key!r}. {hint}")
        else:
            distributed[by_key[entry.tenant_key] if entry.tenant_key is not None else tenants[0]].append(entry)
    if problems:
        raise misconfigured([*problems, "Nothing was imported."])
    return distributed


def _describe(job: ImportedJob) -> Sequence[str]:
    return job.tenant, job.job, str(job.action), ", ".join(job.changed)


EXPORT: Final = Subcommand(
    help="Print jobs with their schedules and policies as JSON, for import.",
    run=_export,
    add_arguments=_add_export_arguments,
)
IMPORT: Final = Subcommand(
    help="Create and update jobs from an export, from beat_schedule or from RedBeat; all of them or none.",
    run=_import,
    add_arguments=_add_import_arguments,
)
