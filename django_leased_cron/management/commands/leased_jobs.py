"""``manage.py leased_jobs``: the jobs of all tenants, for people and scripts."""

from __future__ import annotations

from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error as DjangoDatabaseError

from django_leased_cron.exceptions import StoreError
from django_leased_cron.management.exit_codes import FOUND
from django_leased_cron.management.jobs.choice import choose_tenants
from django_leased_cron.management.jobs.due_times import NEXT
from django_leased_cron.management.jobs.listing import LIST
from django_leased_cron.management.jobs.pauses import PAUSE, RESUME
from django_leased_cron.management.jobs.run_now import RUN
from django_leased_cron.management.jobs.subcommand import Answer, Subcommand
from django_leased_cron.management.jobs.transfer import EXPORT, IMPORT
from django_leased_cron.management.jobs.validation import VALIDATE
from django_leased_cron.management.project import list_tenants

_SUBCOMMANDS: Final = {
    "list": LIST,
    "next": NEXT,
    "run": RUN,
    "pause": PAUSE,
    "resume": RESUME,
    "export": EXPORT,
    "import": IMPORT,
    "validate": VALIDATE,
}


class Command(BaseCommand):
    help = "Look at and look after the jobs of all tenants, or of those named."
    # Run by the command itself: Django would exit with 1 for a configuration error.
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        subparsers = parser.add_subparsers(required=True, metavar="SUBCOMMAND")
        for name, subcommand in _SUBCOMMANDS.items():
            subparser = subparsers.add_parser(name, help=subcommand.help, description=subcommand.help)
            _add_common_arguments(subparser)
            subcommand.add_arguments(subparser)
            subparser.set_defaults(subcommand=subcommand)

    def handle(self, *args: Any, **options: Any) -> None:
        subcommand: Subcommand = options["subcommand"]
        tenants = choose_tenants(list_tenants(), options["tenant"])
        try:
            answer = subcommand.run(tenants, options)
        except (StoreError, DjangoDatabaseError) as exc:
            raise CommandError(str(exc).strip(), returncode=FOUND) from exc
        self._print(answer)

    def _print(self, answer: Answer) -> None:
        if answer.output:
            self.stdout.write(answer.output)
        for warning in answer.warnings:
            self.stderr.write(warning)
        if answer.failure:
            raise CommandError(answer.failure, returncode=FOUND)


def _add_common_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "--tenant", action="append", default=[], metavar="KEY", help="Only this tenant; may be given repeatedly."
    )
    parser.add_argument("--json", action="store_true", help="Print JSON, for scripts.")
